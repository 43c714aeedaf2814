"$PROFGPU" analyze no/such/file.json
