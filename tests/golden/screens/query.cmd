"$PROFGPU" query --quiet examples/resnet-demo.json.gz "select category, count(*) as calls, sum(duration_ns) as total_ns from kernels group by category"
