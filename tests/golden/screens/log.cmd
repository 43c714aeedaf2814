# not compared
"$PROFGPU" log --backend replay:examples/replay.jsonl --count 1 --query timestamp,index,utilization.gpu,temperature.gpu
