# not compared
"$PROFGPU" run --backend none -- true 2>&1
