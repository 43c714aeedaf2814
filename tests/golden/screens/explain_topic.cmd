"$PROFGPU" explain deepspeed
