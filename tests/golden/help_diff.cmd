"$PROFGPU" help diff
