"$PROFGPU" completion fish
