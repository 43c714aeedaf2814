#include "measure/cache_flush.h"

namespace profgpu {
namespace {

// Far over any last cache (an H200 has 50 MiB, a B200 126 MiB, an MI300X 256 MiB behind its level-2 caches).
constexpr int64_t kFlushBytes = int64_t{512} << 20;
constexpr int64_t kTimesCache = 4;
constexpr int64_t kMostOfMemory = 8;   // an eighth

}  // namespace

int64_t CacheFlush::bytes_for(const cuda::Device& device) {
  return std::max(kFlushBytes, kTimesCache * device.cache_bytes / kKernelElementBytes * kKernelElementBytes);
}

Result<cuda::DeviceMemory> CacheFlush::allocate(const cuda::Device& device) {
  if (device.memory_bytes / kMostOfMemory < bytes_for(device))
    return Error{"the device has too little memory to push out what its cache holds"};
  return cuda::DeviceMemory::allocate(device, bytes_for(device));
}

Status CacheFlush::flush() const {
  if (!write_) return device_.kernels() ? Error{"the driver does not find the kernel"} : device_.kernels().error();
  return device_.launch(write_, {address_, static_cast<uint64_t>(bytes_for(device_) / kKernelElementBytes)});
}

}  // namespace profgpu
