"$PROFGPU" stat --help
