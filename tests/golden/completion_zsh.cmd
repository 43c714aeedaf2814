"$PROFGPU" completion zsh
