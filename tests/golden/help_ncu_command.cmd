"$PROFGPU" help ncu-command
