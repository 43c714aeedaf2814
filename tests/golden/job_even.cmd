"$PROFGPU" analyze tests/golden/jobs/even; "$PROFGPU" analyze tests/golden/jobs/even --section cluster --width 60 --top 3
