"$PROFGPU" exporter --help
