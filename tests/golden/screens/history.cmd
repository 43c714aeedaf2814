# not compared
PROFGPU=$(realpath "$PROFGPU"); examples=$(realpath examples); cd "$(mktemp -d)" && ln -s "$examples"/* .; "$PROFGPU" baseline save main resnet-demo.json.gz > build.log; "$PROFGPU" history main; rm -r "$PWD"
