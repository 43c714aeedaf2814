"$PROFGPU" run --repeats 0 -- true
