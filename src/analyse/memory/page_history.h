// What a page shows of a memory snapshot beyond its section: each allocation and segment with its life, and the stacks.
#pragma once

#include <cstdint>
#include <optional>

#include "analyse/report/page.h"
#include "trace/memory_snapshot.h"

namespace profgpu {

/// Events that a page keeps, of all its ranks and their devices: of longer histories those around each peak.
constexpr uint32_t kPageMemoryEvents = 2'000'000;

/// None: the snapshot has neither events nor segments. `most_events`: of all devices, each of which has an equal part.
std::optional<PageSnapshot> page_snapshot(const MemorySnapshot& snapshot, PageStrings& strings,
                                          uint32_t most_events = kPageMemoryEvents);

}  // namespace profgpu
