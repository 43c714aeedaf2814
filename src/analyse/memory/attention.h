// What attention itself makes: the scores, and what becomes of them up to the product with the values.
#pragma once

#include <vector>

#include "analyse/memory/lifetimes.h"
#include "analyse/memory/stack_facts.h"

namespace profgpu {

/// Of each allocation of a device: whether it is made in a function of attention's, or is as large as what a softmax
/// makes in the same call of a module's function, outside of layers. Dropout's masks have a byte for each score.
std::vector<bool> made_in_attention(const MemoryHistory& history, const StackBook& stacks);

}  // namespace profgpu
