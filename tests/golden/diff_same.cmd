"$PROFGPU" diff examples/resnet-demo.json.gz examples/resnet-demo.json.gz --top 3 --width 100 --fail-on "step_time > +3%"
