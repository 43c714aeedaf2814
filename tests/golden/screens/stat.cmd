"$PROFGPU" stat --backend replay:examples/replay.jsonl,speed=0.001 --no-header
