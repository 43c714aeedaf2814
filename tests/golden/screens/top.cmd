# not compared
"$PROFGPU" top --once --backend replay:examples/replay.jsonl,speed=0.001
