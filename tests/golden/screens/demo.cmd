"$PROFGPU" demo
