// What a device's memory holds besides what PyTorch's allocator has: contexts, libraries, other processes.
#pragma once

#include <cstdint>
#include <optional>

#include "analyse/memory/snapshot_section.h"
#include "trace/sample.h"

namespace profgpu {

/// From the samples of a device that a rank has, by the log's own number of it. The process is the one that the
/// recording says is of this rank, else the only one on the device. None: the samples have nothing of memory.
std::optional<OutsideMemory> outside_memory(const SampleLog& samples, uint32_t device, int rank,
                                            const SnapshotSection& snapshot);

/// The largest batch for what the device has beside what is outside. Where an allocation failed, more is known: how
/// much PyTorch could have.
void fit_beside_others(SnapshotSection& snapshot);

}  // namespace profgpu
