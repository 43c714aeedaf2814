// Which time averages are over.
#pragma once

#include "analyse/rank/facts.h"
#include "trace/intervals.h"

namespace profgpu {

/// What averages over steps leave out: warm-up and incomplete steps, and all that is outside of steps where a good part
/// of the device's work was launched there, as in the recording of a whole program of which some steps are marked.
struct AveragedTime {
  bool work_outside = false;
  Intervals left_out;

  static AveragedTime compute(const Facts& facts);
};

}  // namespace profgpu
