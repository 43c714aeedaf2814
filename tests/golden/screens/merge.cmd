PROFGPU=$(realpath "$PROFGPU"); examples=$(realpath examples); cd "$(mktemp -d)" && ln -s "$examples"/* .; "$PROFGPU" merge four-ranks -o job.pftrace; rm -r "$PWD"
