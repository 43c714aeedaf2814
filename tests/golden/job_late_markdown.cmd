"$PROFGPU" analyze tests/golden/jobs/late --format markdown; "$PROFGPU" analyze tests/golden/jobs/late --format markdown --section cluster --top 4
