// Why an allocation failed.
#pragma once

#include <optional>
#include <vector>

#include "analyse/memory/lifetimes.h"
#include "analyse/memory/snapshot_section.h"
#include "analyse/memory/stack_facts.h"

namespace profgpu {

/// Of the last event that says so, over all devices; none: nothing failed within the recording.
///
/// PyTorch gives back what it caches before it fails, but for segments in which something is allocated. What is left
/// unused then lies between live blocks: where that and what the device has left would have been enough, it was
/// fragmentation, else need. If the device has enough left, a limit of the process refused the allocation.
std::optional<OutOfMemory> out_of_memory(const MemorySnapshot& snapshot, const std::vector<MemoryHistory>& histories,
                                         const StackBook& stacks);

}  // namespace profgpu
