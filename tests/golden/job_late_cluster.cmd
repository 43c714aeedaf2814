"$PROFGPU" analyze tests/golden/jobs/late --section cluster --width 80 --top 6
