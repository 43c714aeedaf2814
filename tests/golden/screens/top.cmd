"$PROFGPU" top --once --backend replay:examples/replay.jsonl
