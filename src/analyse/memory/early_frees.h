// What is held at the peak although nothing needs it any more.
#pragma once

#include <vector>

#include "analyse/memory/lifetimes.h"
#include "analyse/memory/memory_categories.h"
#include "analyse/memory/memory_phases.h"
#include "analyse/memory/snapshot_section.h"
#include "analyse/memory/stack_facts.h"

namespace profgpu {

/// By line and kind, what saves most first; at most ten. Two kinds are told: gradients between an optimizer's step and
/// the next backward pass; and what a forward makes that outlives the optimizer's step, but not the recording.
std::vector<EarlyFreeRow> early_frees(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                      const StackBook& stacks, const MemoryPhases& phases,
                                      const std::vector<CategoryOf>& categories);

}  // namespace profgpu
