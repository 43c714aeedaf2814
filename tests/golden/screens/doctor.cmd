# differs
"$PROFGPU" doctor --backend none
