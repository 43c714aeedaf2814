// Who held the memory at the peak, and what made it a peak.
#pragma once

#include <optional>
#include <vector>

#include "analyse/memory/lifetimes.h"
#include "analyse/memory/memory_categories.h"
#include "analyse/memory/memory_phases.h"
#include "analyse/memory/snapshot_section.h"
#include "analyse/memory/stack_facts.h"

namespace profgpu {

SnapshotPeak snapshot_peak(const MemorySnapshot& snapshot, const MemoryHistory& history, const StackBook& stacks,
                           const MemoryPhases& phases, const std::vector<CategoryOf>& categories);

/// Of temporary tensors that live for at most a fiftieth of the events, or 64 of them, or that an optimizer's step
/// makes, the line that holds most at the peak. None: no such tensors are there, or they have no stack.
std::optional<PeakSpike> peak_spike(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                    const StackBook& stacks, const std::vector<CategoryOf>& categories);

/// Parameters at the peak that have a copy of as many blocks and 1, 2 or 4 times the bytes from another line: master
/// weights beside those of a smaller type, a model that was loaded and then converted. The bytes of the smaller copies.
std::optional<int64_t> duplicate_parameters(const MemoryHistory& history, const StackBook& stacks,
                                            const std::vector<CategoryOf>& categories);

}  // namespace profgpu
