"$PROFGPU" analyze --quiet examples/resnet-demo.json.gz --section kernels --top 5
