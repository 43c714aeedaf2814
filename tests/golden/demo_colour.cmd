"$PROFGPU" analyze examples/resnet-demo.json.gz --color always
