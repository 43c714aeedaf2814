"$PROFGPU" pick --backend replay:examples/replay.jsonl --count 3 --free 20GiB --max-util 10
