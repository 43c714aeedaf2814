// Tensors that only Python's garbage collector frees: something that holds them refers to itself.
#pragma once

#include <vector>

#include "analyse/memory/lifetimes.h"
#include "analyse/memory/memory_categories.h"
#include "analyse/memory/snapshot_section.h"
#include "analyse/memory/stack_facts.h"

namespace profgpu {

/// Whether the collector frees it: by the stack of its free, where frees have stacks of their own.
bool is_collected(const MemorySnapshot& snapshot, const StackBook& stacks, const Allocation& a);

/// By the line that allocates them, those of most bytes first; at most ten.
std::vector<CycleRow> reference_cycles(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                       const StackBook& stacks, const std::vector<CategoryOf>& categories);

}  // namespace profgpu
