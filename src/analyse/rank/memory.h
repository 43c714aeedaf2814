// Device memory, from the framework's allocator.
#pragma once

#include <map>
#include <optional>

#include "analyse/rank/facts.h"
#include "analyse/report/document.h"
#include "analyse/report/page.h"

namespace profgpu {

struct MemoryPoint {
  int64_t time_ns = 0;
  std::optional<int64_t> allocated_bytes;
  std::optional<int64_t> reserved_bytes;

  void fields(auto&& v) const {
    v("time_ns", time_ns), v("allocated_bytes", allocated_bytes), v("reserved_bytes", reserved_bytes);
  }
};

struct Memory {
  int32_t device = -1;  ///< whose figures these are: the one with the highest peak relative to its capacity
  std::optional<int64_t> peak_allocated_bytes, peak_reserved_bytes, capacity_bytes;
  std::optional<double> growth_bytes_per_step;  ///< Theil-Sen slope of the lowest allocation in each measured step
  std::optional<double> fragmentation_pct;      ///< at the reserved peak
  bool reserved_beside_unused = false;          ///< more was reserved although at least as much was reserved and unused
  std::map<int32_t, int64_t> reserved_by_device = {};   ///< peak of each device; those without totals are left out
  int64_t allocator_calls = 0;                  ///< cudaMalloc, cudaFree, hipMalloc and the like
  int64_t steps_with_allocator_calls = 0;       ///< measured steps with such calls that wait for the device
  std::vector<MemoryPoint> timeline;            ///< at most 500 points; keeps every peak

  void fields(auto&& v) const {
    v("peak_allocated_bytes", peak_allocated_bytes), v("peak_reserved_bytes", peak_reserved_bytes);
    v("capacity_bytes", capacity_bytes), v("growth_bytes_per_step", growth_bytes_per_step);
    v("fragmentation_pct", fragmentation_pct), v("allocator_calls", allocator_calls), v("timeline", timeline);
  }
  static Memory compute(const Facts& facts);
};

/// Device memory over time, and the places in the program that held it at the peak. For Memory's device; nothing
/// without allocator events that carry totals. Times are the trace's own plus `shift_ns`. At most about 2,000 points:
/// the first, lowest and highest of each stretch; at most 100 holders and one for the rest. Blocks from before the
/// trace are one holder without a place.
std::optional<PageMemory> memory_over_time(const Facts& facts, int64_t shift_ns);

}  // namespace profgpu
