"$PROFGPU" ncu-command examples/resnet-demo.json.gz --quiet
