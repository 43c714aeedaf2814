"$PROFGPU" help history
