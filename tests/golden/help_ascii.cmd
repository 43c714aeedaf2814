LC_ALL=C "$PROFGPU" help; LC_ALL=C "$PROFGPU" explain data-loading-bound
