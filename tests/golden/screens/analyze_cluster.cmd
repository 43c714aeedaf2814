"$PROFGPU" analyze --quiet tests/golden/jobs/late --section cluster --top 6
