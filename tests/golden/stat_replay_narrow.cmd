"$PROFGPU" stat --backend replay:examples/replay.jsonl --no-header --width 64 --color always
