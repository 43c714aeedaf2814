# not compared
"$PROFGPU" doctor --backend none
