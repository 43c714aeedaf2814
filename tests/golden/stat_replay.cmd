"$PROFGPU" stat --backend replay:examples/replay.jsonl --no-header --width 100
