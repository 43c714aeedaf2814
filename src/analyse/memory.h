// Device memory as the framework's allocator saw it.
#pragma once

#include <optional>

#include "analyse/facts.h"

namespace profgpu {

struct MemoryPoint {
  int64_t time_ns = 0;
  std::optional<int64_t> allocated_bytes;
  std::optional<int64_t> reserved_bytes;
};

struct Memory {
  int32_t device = -1;                        ///< the device these are of: the one whose peak is highest, of its capacity
  std::optional<int64_t> peak_allocated_bytes;
  std::optional<int64_t> peak_reserved_bytes;
  std::optional<int64_t> capacity_bytes;
  std::optional<double> growth_bytes_per_step;  ///< Theil-Sen slope of the lowest allocation in each measured step
  std::optional<double> fragmentation_pct;      ///< at the reserved peak
  int64_t allocator_calls = 0;                  ///< cudaMalloc, cudaFree, hipMalloc and kin
  int64_t steps_with_allocator_calls = 0;       ///< of the measured steps: calls that wait for the device
  std::vector<MemoryPoint> timeline;            ///< at most 500 points; keeps every peak
  static Memory compute(const Facts& facts);
};

}  // namespace profgpu
