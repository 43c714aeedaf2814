"$PROFGPU" help merge
