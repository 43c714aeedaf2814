"$PROFGPU" help attach
