// How large a batch fits.
#pragma once

#include <optional>
#include <vector>

#include "analyse/memory/lifetimes.h"
#include "analyse/memory/memory_categories.h"
#include "analyse/memory/memory_phases.h"
#include "analyse/memory/snapshot_section.h"
#include "analyse/memory/stack_facts.h"

namespace profgpu {

/// `capacity_bytes`: for all that is reserved; `peak_reserved_bytes`: of this run. Without them no largest batch. None:
/// nothing that grows with the batch is held at the peak.
///
/// Passes that ran out of memory do not tell the peak of their batch. Where the program goes on after them, the batch
/// is that of the steps that are complete. Else it is the one that failed: the last complete step, scaled to it, tells
/// how much it would still have taken.
std::optional<BatchFit> batch_fit(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                  const StackBook& stacks, const MemoryPhases& phases,
                                  const std::vector<CategoryOf>& categories, std::optional<int64_t> capacity_bytes,
                                  std::optional<int64_t> peak_reserved_bytes);

}  // namespace profgpu
