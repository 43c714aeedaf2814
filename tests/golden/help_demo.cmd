"$PROFGPU" demo --help
