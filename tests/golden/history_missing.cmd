"$PROFGPU" history --file no-such-history.sqlite
