// Lane: one rank's way through its steps as the points where it meets others, with its own work between them.
#pragma once

#include <vector>

#include "analyse/facts.h"

namespace profgpu {

/// A point of a rank's timeline at which it hands a collective its part, or waits for one to end.
struct LanePoint {
  bool waits = false;       ///< else: arrives at the call
  uint32_t call = 0;        ///< CollectiveCalls::calls
  int64_t local_ns = 0;     ///< the rank's own time since the point before it, waiting left out
};

struct Lane {
  std::vector<LanePoint> points;
  static Lane compute(const Facts& facts);
};

}  // namespace profgpu
