"$PROFGPU" doctor --help
