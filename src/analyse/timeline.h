// A rank's trace as tracks of a page: steps and phases, per device its idleness, streams, collectives and waits, then threads
// and counters.
#pragma once

#include "analyse/kept_events.h"
#include "analyse/slow_down.h"
#include "analyse/track_writer.h"
#include "report/page.h"

namespace profgpu {

/// What holds for all ranks of a page.
struct TimelinePlan {
  PageScale scale;
  int64_t host_least_ns = 0;       ///< as in KeptEvents
};

/// "thread 123 (main)"
std::string thread_title(const Thread& thread);

/// Adds the rank's tracks, and names and arguments that they need. `clocks`: of the rank's devices; may be empty.
void add_timeline(const PlacedRank& rank, const TimelinePlan& plan, const DeviceClocks& clocks, PageData& page);

}  // namespace profgpu
