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
  int64_t kept_bytes = 0;      ///< what stays: the input of each call, and one call's activations while it is computed again
  std::vector<size_t> allocations;  ///< all activations that are made there, by place in the history
  [[nodiscard]] int64_t saved_bytes() const { return bytes - kept_bytes; }
};

/// Those that save something, what saves most first. How many calls there are is how often the same stack is there; a
/// call's input is as large as what was made last under the line.
std::vector<CheckpointSite> checkpoint_sites(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                             const StackBook& stacks, const std::vector<CategoryOf>& categories);

}  // namespace profgpu
