// The section `snapshot` of a memory timeline: levels of categories over time, and no allocations.
#pragma once

#include "analyse/memory/snapshot_section.h"

namespace profgpu {

SnapshotSection timeline_section(const CategoryTimeline& timeline);

}  // namespace profgpu
