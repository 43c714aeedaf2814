"$PROFGPU" top --help
