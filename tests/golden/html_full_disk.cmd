"$PROFGPU" analyze examples/resnet-demo.json.gz --section checklist --html /dev/full
