"$PROFGPU" analyze tests/golden/logs/vllm.log
