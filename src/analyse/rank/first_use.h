// Host time in work that happens once: the first use of a device, a library, a shape.
#pragma once

#include <vector>

#include "analyse/rank/facts.h"
#include "trace/intervals.h"
#include "trace/trace.h"

namespace profgpu {

/// Loading of modules and libraries; creation of contexts, streams, handles; compilation; autotuning; graph capture and
/// instantiation. Known by name; or a call, or an op without ops within, of at least 1 ms that took 20 times the median
/// of its name, outside waits for a device; an op only where work runs on devices. What allocates memory is one only
/// from 100 ms on.
struct FirstUse {
  std::vector<Intervals> time;       ///< by thread, merged
  std::vector<Intervals> capture;    ///< by thread, merged: the part in which graphs are captured
  std::vector<HostId> ranges;        ///< outermost, in the order of the host table
  static FirstUse compute(const Facts& facts);
};

}  // namespace profgpu
