// Peaks at the clock that samples saw: rates of products go with the device's clock, the memory's bandwidth does not.
#pragma once

#include "analyse/rank/rank_report.h"

namespace profgpu {

/// Adds to a rank's limits, roofline and distance what follows from the mean SM clock over its measured steps. Nothing
/// where the clock at which the peaks hold is not published; measured peaks (--peaks) have the device's own clock in
/// them.
void at_clock(RankReport& rank, double sm_clock_mhz);

}  // namespace profgpu
