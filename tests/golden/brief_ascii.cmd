LC_ALL=C "$PROFGPU" analyze --quiet examples/resnet-demo.json.gz --section brief --width 100
