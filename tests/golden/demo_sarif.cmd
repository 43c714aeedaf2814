"$PROFGPU" analyze examples/resnet-demo.json.gz --format sarif | sed "s|file://.*/examples/|file:///examples/|"
