"$PROFGPU" help baseline
