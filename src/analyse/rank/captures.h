// Captures of CUDA graphs, and the replays whose activity they name. A replay is one call and many activities; what
// these are for was said when the graph was captured, often in a file of its own.
#pragma once

#include <vector>

#include "analyse/rank/facts.h"
#include "trace/intervals.h"
#include "trace/trace.h"

namespace profgpu {

struct Captures {
  /// By thread, merged: from begin to end of a capture, and an engine's capture steps.
  std::vector<Intervals> time;
  /// Of the trace's windows: mostly a capture, beside others in which a graph is replayed. They are no run to measure.
  std::vector<bool> set_aside;
  /// By activity: the call that was captured for it; invalid: none is known for certain. Empty: of no activity at all.
  std::vector<HostId> call;
  int64_t named = 0;                ///< activities that have one
  int64_t replayed = 0;             ///< activities of graphs, of all replays

  /// The call that says what the activity is for: the captured one, else the one that launched it.
  [[nodiscard]] HostId origin(const Trace& trace, ActivityId a) const {
    return !call.empty() && call[a.value].valid() ? call[a.value] : trace.activity.launch[a.value];
  }
  [[nodiscard]] bool is_set_aside(const Trace& trace, int64_t time_ns) const;
  static Captures compute(const Facts& facts);
};

}  // namespace profgpu
