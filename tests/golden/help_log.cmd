"$PROFGPU" log --help
