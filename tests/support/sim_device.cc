#include "tests/support/sim_device.h"

#include <array>

namespace profgpu::sim {
namespace {

constexpr int kApis = static_cast<int>(Api::count);

constexpr ApiName kCuda[kApis] = {
    {"cudaLaunchKernel", 211, true, false},     {"cudaLaunchKernelExC", 430, true, false},
    {"cuLaunchKernel", 307, true, true},        {"cudaGraphLaunch", 311, true, false},
    {"cudaLaunchHostFunc", 279, false, false},  {"cudaMemcpyAsync", 41, true, false},
    {"cudaMemsetAsync", 51, true, false},       {"cudaStreamSynchronize", 131, true, false},
    {"cudaDeviceSynchronize", 165, true, false},{"cudaEventRecord", 135, false, false},
    {"cudaEventQuery", 138, false, false},      {"cudaStreamWaitEvent", 147, true, false},
    {"cudaMalloc", 20, false, false},           {"cudaFree", 22, false, false},
    {"cudaStreamIsCapturing", 317, false, false},{"cudaFuncSetAttribute", 273, false, false},
    {"cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", 251, false, false},
    {"cuLibraryLoadData", 675, false, true},    {"cudaStreamBeginCapture", 316, false, false},
    {"cudaStreamEndCapture", 318, false, false},
};

constexpr ApiName kHip[kApis] = {
    {"hipLaunchKernel", 107, true, false},      {"hipExtLaunchKernel", 62, true, false},
    {"hipExtModuleLaunchKernel", 65, true, false},{"hipGraphLaunch", 93, true, false},
    {"hipLaunchHostFunc", 104, false, false},   {"hipMemcpyAsync", 134, true, false},
    {"hipMemsetAsync", 159, true, false},       {"hipStreamSynchronize", 199, false, false},
    {"hipDeviceSynchronize", 48, false, false}, {"hipEventRecord", 58, false, false},
    {"hipEventQuery", 57, false, false},        {"hipStreamWaitEvent", 200, false, false},
    {"hipMalloc", 118, false, false},           {"hipFree", 72, false, false},
    {"hipStreamIsCapturing", 195, false, false},{"hipGetDevicePropertiesR0600", 375, false, false},
    {"hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", 172, false, false},
    {"hipModuleLoadData", 157, false, false},   {"hipStreamBeginCapture", 190, false, false},
    {"hipStreamEndCapture", 193, false, false},
};

constexpr DeviceFacts kFacts[] = {
    {"NVIDIA H100 80GB HBM3", 85018279936, 370, 24, 6, false, {7, 20, 24, 28}, 0},
    {"NVIDIA A100-SXM4-80GB", 84990623744, 235, 22, 6, false, {7, 20, 24, 28}, 0},
    {"AMD Instinct MI300X", 206141652992, 320, 26, 7, true, {0, 4, 5, 6}, 2},
};

}  // namespace

const ApiName& api_name(Gpu gpu, Api api) { return (gpu == Gpu::mi300x ? kHip : kCuda)[static_cast<int>(api)]; }

const DeviceFacts& facts(Gpu gpu) { return kFacts[static_cast<int>(gpu)]; }

std::string device_properties(Gpu gpu, int index) {
  const DeviceFacts& f = facts(gpu);
  std::string out = "    {\n      \"id\": " + std::to_string(index) + ", \"name\": \"" + f.name +
                    "\", \"totalGlobalMem\": " + std::to_string(f.memory_bytes) + ",\n";
  const char* version = gpu == Gpu::h100   ? "9, \"computeMinor\": 0"
                        : gpu == Gpu::a100 ? "8, \"computeMinor\": 0"
                                           : "9, \"computeMinor\": 4";
  out += std::string("      \"computeMajor\": ") + version +
         ",\n      \"maxThreadsPerBlock\": 1024, \"maxThreadsPerMultiprocessor\": 2048,\n";
  if (f.amd) {
    out += "      \"regsPerBlock\": 65536, \"warpSize\": 64,\n      \"sharedMemPerBlock\": 65536, \"numSms\": 304\n";
    out += "    , \"maxSharedMemoryPerMultiProcessor\": 65536\n    }";
    return out;
  }
  const bool hopper = gpu == Gpu::h100;
  out += std::string(
             "      \"regsPerBlock\": 65536, \"warpSize\": 32,\n      \"sharedMemPerBlock\": 49152, \"numSms\": ") +
         (hopper ? "132" : "108") + "\n";
  out += std::string("    , \"regsPerMultiprocessor\": 65536, \"sharedMemPerBlockOptin\": ") +
         (hopper ? "232448" : "166912") + ", \"sharedMemPerMultiprocessor\": " + (hopper ? "233472" : "167936") +
         "\n    }";
  return out;
}

}  // namespace profgpu::sim
