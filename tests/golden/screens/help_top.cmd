"$PROFGPU" help top
