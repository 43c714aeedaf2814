"$PROFGPU" analyze examples/resnet-demo.json.gz --json | head -c 20000
