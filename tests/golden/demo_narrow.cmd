"$PROFGPU" analyze examples/resnet-demo.json.gz --width 80
