"$PROFGPU" bench --help
