// What is held by category over time.
#pragma once

#include <vector>

#include "analyse/memory/lifetimes.h"
#include "analyse/memory/memory_categories.h"
#include "analyse/memory/snapshot_section.h"

namespace profgpu {

/// The highest of the timeline's points in each of at most kCategoryPoints stretches, without categories.
std::vector<CategoryPoint> highest_points(const std::vector<SnapshotPoint>& timeline);
/// What is held at these. `timeline`: of this device.
std::vector<CategoryPoint> category_levels(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                           const std::vector<CategoryOf>& categories,
                                           const std::vector<SnapshotPoint>& timeline);

}  // namespace profgpu
