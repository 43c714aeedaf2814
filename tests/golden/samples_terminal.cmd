"$PROFGPU" analyze examples/replay.jsonl
