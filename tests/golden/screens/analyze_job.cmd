"$PROFGPU" analyze --quiet tests/golden/jobs/late
