// Blocks that were there before the first event and stay to the end: nothing but their sizes tells what they are.
#pragma once

#include <functional>
#include <vector>

#include "analyse/memory/lifetimes.h"
#include "analyse/memory/memory_categories.h"
#include "analyse/memory/memory_phases.h"

namespace profgpu {

/// Parameters are as large as their gradients, and so are an optimizer's states; of 16-bit parameters states and master
/// copies are twice as large, and states of 8 bits a half, or a quarter beside 32 bits. How many states a parameter has
/// is what holds for most of the bytes. What is left then are parameters without a gradient. Without a backward pass
/// the copies that autocast makes of parameters tell. `only_forwards`: all of them are parameters.
void judge_blocks_of_before(const MemoryHistory& history, const MemoryPhases& phases, bool only_forwards,
                            std::vector<CategoryOf>& categories);

/// What objects of the program make and keep (`is_made`: by place in the history's allocations) is parameters as far as
/// gradients of those sizes have none yet.
void judge_made_blocks(const MemoryHistory& history, const MemoryPhases& phases,
                       const std::function<bool(size_t)>& is_made, std::vector<CategoryOf>& categories);

}  // namespace profgpu
