"$PROFGPU" pick --help
