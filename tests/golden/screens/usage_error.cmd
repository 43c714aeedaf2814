"$PROFGPU" analyze --jsn trace.json
