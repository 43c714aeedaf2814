// Which kernels are worth a look with a profiler of single kernels, and which of their launches.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyse/rank/facts.h"

namespace profgpu {

/// Kernels of one function, as kernel_function() has it: profilers select by it.
struct ProfileTarget {
  std::string function;
  std::string name;                       ///< the kernel that takes the most time of them
  int64_t launches = 0, total_ns = 0;     ///< in measured steps of the busiest device
  int64_t gain_ns = 0;                    ///< time beyond the limit of their work; all of it where that is unknown
  std::optional<double> limit_pct;        ///< share of the time that the work needs at the limit; none: unknown
};

struct ProfileTargets {
  std::vector<ProfileTarget> targets;     ///< most time to gain first
  /// Of launches of these functions: so many come before the first measured step, and so many until each function
  /// has run once from there on.
  int64_t skip = 0, count = 0;

  /// At most `most` of them.
  static ProfileTargets of(const Facts& facts, size_t most);
};

}  // namespace profgpu
