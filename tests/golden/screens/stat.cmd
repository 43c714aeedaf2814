"$PROFGPU" stat --backend replay:examples/replay.jsonl --no-header
