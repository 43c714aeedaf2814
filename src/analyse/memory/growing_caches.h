// Key-value caches that a model's forward makes anew for each token, by torch.cat().
#pragma once

#include <vector>

#include "analyse/memory/lifetimes.h"
#include "analyse/memory/memory_categories.h"
#include "analyse/memory/stack_facts.h"

namespace profgpu {

/// Of one stack in a module's forward: as many tensors each time, all larger by the same bytes than those before, each
/// of which is freed once the one that takes its place is made.
void judge_growing_caches(const MemoryHistory& history, const StackBook& stacks, std::vector<CategoryOf>& categories);

}  // namespace profgpu
