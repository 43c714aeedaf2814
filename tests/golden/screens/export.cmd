PROFGPU=$(realpath "$PROFGPU"); examples=$(realpath examples); cd "$(mktemp -d)" && ln -s "$examples"/* .; "$PROFGPU" export resnet-demo.json.gz --to perfetto -o job.pftrace; rm -r "$PWD"
