"$PROFGPU" diff --quiet tests/golden/jobs/even tests/golden/jobs/late
