// Device memory over time, and which places in the program held it when most was allocated.
#pragma once

#include <optional>

#include "analyse/facts.h"
#include "report/page.h"

namespace profgpu {

/// Of the device that Memory is of; nothing without allocator events that carry totals. Times are the trace's own, moved by
/// `shift_ns`. At most about 2,000 points, of each stretch the first, the lowest and the highest; at most 100 holders and a last one
/// for the rest. Blocks that were there before the trace are one holder without a place in the program.
std::optional<PageMemory> memory_over_time(const Facts& facts, int64_t shift_ns);

}  // namespace profgpu
