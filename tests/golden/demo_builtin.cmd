"$PROFGPU" demo --width 100 --color never
