"$PROFGPU" -- /nonexistent/program
