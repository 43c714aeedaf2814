"$PROFGPU" monitor --help
