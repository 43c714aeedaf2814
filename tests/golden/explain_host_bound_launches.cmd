"$PROFGPU" explain host-bound-launches
