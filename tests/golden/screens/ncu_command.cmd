"$PROFGPU" ncu-command --quiet examples/resnet-demo.json.gz
