"$PROFGPU" diff examples/resnet-demo.json.gz examples/replay.jsonl
