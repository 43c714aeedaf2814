"$PROFGPU" analyze tests/golden/jobs/late --json | sed -n '/^  "cluster"/,$p'
