// What allocations are for: every byte has exactly one category, with how it is known.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analyse/memory/lifetimes.h"
#include "analyse/memory/memory_phases.h"
#include "analyse/memory/stack_facts.h"

namespace profgpu {

/// In the order in which they are shown where bytes are equal.
enum class MemoryCategory : uint8_t {
  kParameter,
  kGradient,
  kOptimizerState,
  kActivation,
  kTemporary,
  kCommunication,
  kCache,
  kGraphPool,   ///< pools of CUDA graphs
  kMemoryPool,  ///< pools that the program made
  kWorkspace,
  kInput,     ///< PyTorch's profiler alone tells these two apart
  kAutograd,  ///< what a backward pass needs besides gradients
  kUnknown,  ///< the recording does not tell
};
constexpr size_t kMemoryCategories = 13;
/// "optimizer_state"
std::string_view memory_category_name(MemoryCategory category);

enum class Certainty : uint8_t {
  kCertain,   ///< the file, the pool or the stack says it
  kLikely,    ///< the stack, and how long it lives
  kInferred,  ///< lifetime and size alone
};

struct CategoryOf {
  MemoryCategory category = MemoryCategory::kUnknown;
  Certainty certainty = Certainty::kInferred;
};

/// Of each allocation of a device, in their order.
///
/// A gradient is what the backward pass leaves behind; an optimizer state what an optimizer's step does; an activation
/// what a forward makes and a backward pass frees, or what is alive at the end of a recording of forwards alone. What
/// was there before the first event has no stack: freed in a backward pass it is an activation, after an optimizer's
/// step a gradient; what stays and is as large as the gradients of a step are is a parameter, then an optimizer's
/// state. In a recording of forwards alone, with no optimizer, what stays is parameters.
std::vector<CategoryOf> memory_categories(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                          const StackBook& stacks, const MemoryPhases& phases);

}  // namespace profgpu
