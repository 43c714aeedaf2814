"$PROFGPU" help query
