// Is one set of steps faster than another, or could it be chance?
//
// Confidence intervals are percentile bootstraps (Efron 1979) of the ratio of means and of medians, 95 %, with the
// resampling seeded so that the same steps give the same answer, and widened for few steps by the ratio of Student's t
// to the normal quantile and by sqrt(n / (n - 1)) (Hesterberg 2015, "What teachers should know about the bootstrap").
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace profgpu {

struct Ratio {
  double value = 1;            ///< after / before
  std::optional<double> low;   ///< 95 % interval; none with fewer than two steps on a side
  std::optional<double> high;
};

enum class Change : uint8_t { kNone, kFaster, kSlower };

struct StepRatio {
  Ratio mean, median;
  Change change = Change::kNone;        ///< of the mean, where the interval leaves 1 out
  std::optional<double> resolution_pct; ///< a change of the mean smaller than this cannot be told from chance
  /// Steps on each side that would tell the change that was seen, if it is real; none where it was told, or where
  /// it is so small that over kMostSteps would be needed.
  std::optional<int64_t> steps_needed;
};

constexpr int64_t kMaxSteps = 100'000;

/// Durations of the measured steps, at least one on each side, none zero on the side `before`.
StepRatio step_ratio(const std::vector<int64_t>& before_ns, const std::vector<int64_t>& after_ns);

}  // namespace profgpu
