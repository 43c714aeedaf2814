"$PROFGPU" help run
