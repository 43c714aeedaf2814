// Captures of CUDA graphs, and replays of those graphs. A replay is one call with many activities; only the capture,
// often in its own file, shows the ops they belong to.
#pragma once

#include <vector>

#include "analyse/rank/facts.h"
#include "trace/intervals.h"
#include "trace/trace.h"

namespace profgpu {

struct Captures {
  /// By thread, merged: from the begin to the end of a capture, and an engine's capture steps.
  std::vector<Intervals> time;
  /// By window of the trace: mostly capture, while a graph is replayed in others. Not measured as a run.
  std::vector<bool> set_aside;
  /// By activity: the captured call; invalid: none is certain. Empty: no activity has one.
  std::vector<HostId> call;
  /// By activity, empty if no activity is one: of several captures that fit, which have the same operators and modules,
  /// but may differ in sizes.
  std::vector<bool> sizes_uncertain;
  int64_t named = 0;                ///< activities with a captured call
  int64_t replayed = 0;             ///< activities of all graph replays

  /// The captured call, else the call that launched the activity.
  [[nodiscard]] HostId origin(const Trace& trace, ActivityId a) const {
    return !call.empty() && call[a.value].valid() ? call[a.value] : trace.activity.launch[a.value];
  }
  [[nodiscard]] bool is_set_aside(const Trace& trace, int64_t time_ns) const;
  static Captures compute(const Facts& facts);
};

}  // namespace profgpu
