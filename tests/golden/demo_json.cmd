json=$("$PROFGPU" analyze examples/resnet-demo.json.gz --json) && head -c 12000 <<< "$json" && echo && sed -n '/^  "cluster"/,$p' <<< "$json"
