"$PROFGPU" help analyze
