"$PROFGPU" completion bash
