// Whether steps get longer with their number.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace profgpu {

struct StepTrend {
  int64_t first_ns = 0, last_ns = 0;   ///< medians of the first and the last quarter
  double slope_ns = 0;                 ///< Theil and Sen's: per step
};

/// Of durations in the steps' order; nullopt: they do not grow, by Kendall's rank correlation, or by less than half.
std::optional<StepTrend> step_trend(const std::vector<int64_t>& durations_ns);

}  // namespace profgpu
