"$PROFGPU" help
