// Steps of a loop that nobody marked, from the period of what a stream runs.
#pragma once

#include <vector>

#include "trace/trace.h"

namespace profgpu {

struct PeriodicSteps {
  std::vector<Interval> steps;   ///< device time; empty: no period was found
  double confidence = 0;         ///< 0 to 1: how alike successive steps are, times the share of time that they cover
};

/// Looks at the stream with most activity. A step begins where its sequence of names begins again, at the place with
/// the longest regular pause before it. At least five steps, or none. Linear in the activities of the stream.
PeriodicSteps periodic_steps(const Trace& trace);

}  // namespace profgpu
