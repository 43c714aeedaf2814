"$PROFGPU" analyze --quiet examples/replay.jsonl
