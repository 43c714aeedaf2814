// What changes to a job would make of its memory peak: the levels of the recorded history with the bytes of some
// categories scaled, so that another moment may become the peak.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "analyse/memory/lifetimes.h"
#include "analyse/memory/memory_categories.h"
#include "analyse/memory/snapshot_section.h"
#include "analyse/memory/stack_facts.h"

namespace profgpu {

/// The peak with each category's bytes times its factor.
int64_t scaled_peak(const MemorySnapshot& snapshot, const MemoryHistory& history,
                    const std::vector<CategoryOf>& categories, const std::array<double, kMemoryCategories>& factors);

/// Changes that lower the peak by at least a hundredth, what saves most first.
std::vector<SavingRow> memory_savings(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                      const StackBook& stacks, const std::vector<CategoryOf>& categories,
                                      const std::vector<uint32_t>& graphs);

}  // namespace profgpu
