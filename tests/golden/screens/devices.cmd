"$PROFGPU" devices --backend replay:examples/replay.jsonl
