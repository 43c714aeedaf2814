// Collectives of a program without a device: gloo's, which run on threads of their own.
#pragma once

#include <vector>

#include "analyse/rank/facts.h"
#include "trace/intervals.h"

namespace profgpu {

struct HostCollectives {
  std::vector<HostId> calls;   ///< by start; empty with a device
  Intervals operators;         ///< of all threads, without those of the collectives; empty without calls
  /// Times in which no operator runs until a collective ends, and the next one starts soon after.
  Intervals waits;
  static HostCollectives compute(const Facts& facts);
};

}  // namespace profgpu
