// Lines of the program that hold more memory after each step than after the one before.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analyse/memory/lifetimes.h"
#include "analyse/memory/memory_categories.h"
#include "analyse/memory/memory_phases.h"
#include "analyse/memory/stack_facts.h"

namespace profgpu {

/// Where growth comes from, as far as the stack and the lifetime tell.
enum class GrowthCause : uint8_t {
  kUnknown,
  kRetainedGraph,  ///< what a forward made outlives the steps: a loss or an output is kept together with its graph
  kCycle,          ///< only Python's garbage collector frees it
  kKept,           ///< a list, a cache or a variable of the program keeps tensors, with a graph or without
};
std::string_view growth_cause_name(GrowthCause cause);

/// Bytes that one stack holds after a step, over the steps: Theil-Sen slope, with its 95 % interval (Sen 1968).
struct GrowingStack {
  uint32_t stack = MemoryStacks::kNone;
  MemoryCategory category = MemoryCategory::kUnknown;  ///< of most of the bytes
  GrowthCause cause = GrowthCause::kUnknown;
  double bytes_per_step = 0, low = 0, high = 0;
  int64_t bytes = 0, blocks = 0;  ///< held after the last step
};

constexpr size_t kMinGrowthSteps = 4;  ///< after the first, in which optimizers make their states

/// Rows at which the model's own forward comes back to the line with which it began. Lines of a loop over its layers do
/// not. Without the first pass.
std::vector<uint32_t> forward_begins(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                     const StackBook& stacks);

/// Rows at which levels are compared.
struct GrowthSteps {
  std::string_view per;  ///< "step", "backward pass", "forward pass"; empty: there are too few of all
  std::vector<uint32_t> rows;
};
/// The ends of the optimizer's steps; too few: the beginnings of backward passes; none of both: those of the model's
/// forward passes.
GrowthSteps growth_steps(const MemorySnapshot& snapshot, const MemoryHistory& history, const StackBook& stacks,
                         const MemoryPhases& phases);

/// What a model's forwards keep of keys and values when a new sequence begins, likewise: caches of sequences that are
/// over. Those of sequences that go on grow with each token, and are no growth.
std::vector<GrowingStack> growing_caches_of_before(const MemoryHistory& history,
                                                   const std::vector<CategoryOf>& categories, const StackBook& stacks);

/// Of histories with three steps to kMinGrowthSteps: the stack that keeps something of each of them, of the most bytes;
/// it frees none. None: there is no such stack, or it keeps less than a hundredth of the peak.
struct KeptByStack {
  uint32_t stack = MemoryStacks::kNone;
  int64_t bytes = 0, steps = 0;
};
std::optional<KeptByStack> kept_of_each_step(const MemoryHistory& history, const std::vector<CategoryOf>& categories,
                                             const StackBook& stacks, const MemoryPhases& phases);

/// Those whose interval is above 0, the fastest first. Empty where fewer steps than kMinGrowthSteps are seen.
std::vector<GrowingStack> growing_stacks(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                         const std::vector<CategoryOf>& categories, const StackBook& stacks,
                                         const GrowthSteps& steps);

}  // namespace profgpu
