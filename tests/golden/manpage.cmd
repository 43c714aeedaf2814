"$PROFGPU" manpage
