# not compared
"$PROFGPU" query --tables
