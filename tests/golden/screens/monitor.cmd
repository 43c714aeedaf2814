"$PROFGPU" monitor --help-alerts
