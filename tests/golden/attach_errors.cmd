"$PROFGPU" attach 4000000000 start; "$PROFGPU" attach 2147483647 status; "$PROFGPU" attach 1 begin
