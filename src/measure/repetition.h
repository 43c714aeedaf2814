// Timing done right: warm-up until steady, then runs until their median is known or time is up.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"

namespace profgpu {

/// What was measured, in nanoseconds of one call.
struct Timing {
  double median_ns = 0, best_ns = 0;
  double spread_pct = 0;         ///< interquartile range, of the median
  int64_t runs = 0;
  int64_t outliers = 0;          ///< runs of over 1.5 times the median; they are kept
};
/// Of at least one run.
Timing timing_of(std::vector<double> runs_ns);

constexpr int64_t kMinRuns = 10;
constexpr double kSteady_pct = 1;      ///< a spread that needs no more runs

/// Makes so many calls in a row and says how long they took together, in nanoseconds.
using TimedRun = std::function<Result<double>(int64_t calls)>;
/// So many calls of `part`, up to the first that fails.
template <class Part>
Status times(int64_t calls, Part&& part) {
  Status status = ok();
  for (int64_t i = 0; i < calls && status; ++i) status = part();
  return status;
}
/// Takes about `budget_ns` at most as `now_ns` counts it, but makes kMinRuns runs in any case. Calls that are short are
/// made several in one run.
Result<Timing> repeat(const TimedRun& run, int64_t budget_ns, const std::function<int64_t()>& now_ns);

}  // namespace profgpu
