"$PROFGPU" analyze tests/golden/jobs/late
