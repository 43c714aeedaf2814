"$PROFGPU" help export
