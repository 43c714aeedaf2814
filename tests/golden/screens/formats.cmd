"$PROFGPU" formats
