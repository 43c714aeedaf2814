// Host time in one-time work: the first use of a device, a library, a shape.
#pragma once

#include <vector>

#include "analyse/rank/facts.h"
#include "trace/intervals.h"
#include "trace/trace.h"

namespace profgpu {

/// Loading of modules and libraries; creation of contexts, streams, handles; compilation; autotuning; graph capture and
/// instantiation. Recognized by name; also a call, or an op without ops inside, of at least 1 ms that took 20 times the
/// median of its name, outside waits for a device; an op only if the trace has device work. An op too rare to have such
/// a median counts from 50 ms if it launches little; memory allocation from 100 ms; and a convolution that times its
/// kernels with events, waits included.
struct FirstUse {
  std::vector<Intervals> time;       ///< by thread, merged
  std::vector<Intervals> capture;    ///< by thread, merged: only graph capture
  std::vector<HostId> ranges;        ///< outermost, in the order of the host table
  static FirstUse compute(const Facts& facts);
};

}  // namespace profgpu
