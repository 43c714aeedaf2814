"$PROFGPU" rules
