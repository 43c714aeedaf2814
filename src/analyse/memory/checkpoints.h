// Modules whose activations a program could compute again instead of keeping them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyse/memory/lifetimes.h"
#include "analyse/memory/memory_categories.h"
#include "analyse/memory/stack_facts.h"

namespace profgpu {

/// The line of a forward that calls modules, and what they keep at the peak.
struct CheckpointSite {
  MemoryLine line;
  int64_t calls = 0;           ///< whose activations are held at the peak
  int64_t bytes = 0;           ///< of these activations
  int64_t inputs_bytes = 0;    ///< of the inputs of these calls, which stay
  std::vector<size_t> allocations;  ///< all activations that are made there, by place in the history
  /// Of one call, while it is computed again.
  [[nodiscard]] int64_t call_bytes() const { return bytes / calls; }
  [[nodiscard]] int64_t saved_bytes() const { return bytes - inputs_bytes - call_bytes(); }
};

/// Those that save something, what saves most first. How many calls there are is how often the same stack is there; a
/// call's input is as large as what was made last under the line.
std::vector<CheckpointSite> checkpoint_sites(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                             const StackBook& stacks, const std::vector<CategoryOf>& categories);

/// The peak with the site's calls checkpointed: inputs in place of its activations, and those of one call once a
/// backward pass has begun to free them.
int64_t checkpointed_peak(const MemorySnapshot& snapshot, const MemoryHistory& history, const CheckpointSite& site);

}  // namespace profgpu
