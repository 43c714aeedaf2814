"$PROFGPU" attach 4000000000 start
