"$PROFGPU" devices --help
