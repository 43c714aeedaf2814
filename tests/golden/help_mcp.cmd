"$PROFGPU" mcp --help
