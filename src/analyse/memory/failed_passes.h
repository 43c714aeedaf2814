// Passes that ended because memory ran out, and what complete passes tell of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analyse/memory/lifetimes.h"
#include "analyse/memory/memory_phases.h"

namespace profgpu {

/// Rows [begin, end): from the beginning of the step in which an allocation failed to the next allocation.
struct FailedPass {
  uint32_t begin = 0, failed = 0, end = 0;

  [[nodiscard]] bool contains(uint32_t row) const { return begin <= row && row < end; }
};

/// In order.
std::vector<FailedPass> failed_passes(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                      const MemoryPhases& phases);

/// Steps that the optimizer completes after a row, whose backward pass begins after it as well.
int64_t steps_after(const MemoryPhases& phases, uint32_t row);

/// The last step that was complete before a pass failed, and how the bytes that the pass allocates compare with it.
struct ReferenceStep {
  uint32_t begin = 0, end = 0;  ///< rows [begin, end)
  double scale = 1;             ///< bytes of the failed pass for one of the step, stack by stack
};
/// `grows`: by place in the history's allocations, whether it grows with the batch. None: no step was complete, or it
/// allocates in other stacks.
std::optional<ReferenceStep> reference_step(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                            const MemoryPhases& phases, const FailedPass& failed,
                                            const std::vector<bool>& grows);

}  // namespace profgpu
