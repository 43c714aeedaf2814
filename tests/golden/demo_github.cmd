"$PROFGPU" analyze examples/resnet-demo.json.gz --format github
