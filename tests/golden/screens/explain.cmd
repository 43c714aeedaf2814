"$PROFGPU" explain data-loading-bound
