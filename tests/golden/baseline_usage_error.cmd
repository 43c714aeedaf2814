"$PROFGPU" baseline keep main
