"$PROFGPU" analyze --quiet examples/resnet-demo.json.gz --all
