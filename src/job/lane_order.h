// The order in which the points of all lanes and the ends of collectives follow from one another.
#pragma once

#include "job/job_lanes.h"

namespace profgpu {

/// Fills JobLanes::order for its joined ranks. What would have to wait for itself (records that contradict each other)
/// is taken to have happened as recorded. O(points and calls).
void put_in_order(JobLanes& lanes);

}  // namespace profgpu
