# not compared
env PROFGPU_CUDA_LIBRARY=/nowhere/libcuda.so.1 PROFGPU_NVML_LIBRARY=/nowhere/libnvidia-ml.so.1 "$PROFGPU" bench launch --backend none
