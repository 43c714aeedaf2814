"$PROFGPU" --help
