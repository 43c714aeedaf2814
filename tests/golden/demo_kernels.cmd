"$PROFGPU" analyze examples/resnet-demo.json.gz --section kernels --top 5
