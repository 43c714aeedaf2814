// Why an allocation failed.
#pragma once

#include <optional>
#include <vector>

#include "analyse/memory/lifetimes.h"
#include "analyse/memory/memory_categories.h"
#include "analyse/memory/memory_phases.h"
#include "analyse/memory/snapshot_section.h"
#include "analyse/memory/stack_facts.h"

namespace profgpu {

/// Of the last event that says so, over all devices; none: nothing failed within the recording. `capacity_bytes`: of
/// the device, where it is known.
///
/// PyTorch gives back what it caches before it fails, but for segments in which something is allocated. What is left
/// unused then lies between live blocks: where that and what the device has left would have been enough, and it is a
/// good part of what is reserved, it was fragmentation, else need. If the device has enough left, a limit of the
/// process refused the allocation.
std::optional<OutOfMemory> out_of_memory(const MemorySnapshot& snapshot, const std::vector<MemoryHistory>& histories,
                                         const StackBook& stacks, std::optional<int64_t> capacity_bytes);

/// Optimizer states that are there when an allocation fails in the second step, and that the first one made: its own
/// pass ran without them. None: it is another step, or they are few.
std::optional<int64_t> first_states(const MemoryHistory& history, const MemoryPhases& phases,
                                    const std::vector<CategoryOf>& categories, uint32_t failed);

}  // namespace profgpu
