// CacheFlush: what a device's caches hold is pushed out of them before each run that is to find them cold.
#pragma once

#include <algorithm>

#include "measure/cuda_library.h"
#include "measure/kernels.h"

namespace profgpu {

class CacheFlush {
 public:
  /// Memory to write: more than any last cache of a device holds. An error where the device has too little.
  static Result<cuda::DeviceMemory> allocate(const cuda::Device& device);
  /// How much that is.
  static int64_t bytes_for(const cuda::Device& device);

  /// `memory`: bytes_for(device) at least.
  CacheFlush(const cuda::Device& device, const cuda::DeviceMemory& memory)
      : device_(device), address_(memory.address()), write_(device.kernel("profgpu_write")) {}

  /// The time of `calls` calls of `work`, each of which finds the caches cold. Few are made in fact: writing takes
  /// longer than what is timed.
  template <class Work>
  Result<double> cold_ns(int64_t calls, Work work) const {
    const int64_t made = std::min(calls, kMostCalls);
    double sum_ns = 0;
    for (int64_t i = 0; i < made; ++i) {
      if (const Status flushed = flush(); !flushed) return flushed.error();
      const auto ns = device_.device_ns(work);
      if (!ns) return ns.error();
      sum_ns += *ns;
    }
    return sum_ns * static_cast<double>(calls) / static_cast<double>(made);
  }

 private:
  static constexpr int64_t kMostCalls = 8;
  [[nodiscard]] Status flush() const;

  const cuda::Device& device_;
  cuda::Address address_;
  cuda::Function write_;
};

}  // namespace profgpu
