"$PROFGPU" query --tables
