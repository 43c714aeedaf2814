"$PROFGPU" pick --backend replay:examples/replay.jsonl,speed=0.001 --count 3 --free 20GiB --max-util 10
