// What a recorded program says of itself (NVTX, phases, steps, collectives) to host rows of a Shard.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "import/recording_rows.h"

namespace profgpu {

/// Ranges count where device activity was recorded too: those that lie outside `windows` are left out, others are cut
/// to them. No window: all count.
void add_ranges(const ProcessPlace& place, const std::vector<Interval>& windows, Shard& shard);
/// Each call is a range of its enqueue, with its arguments; the trace's own links find the kernels launched from it.
void add_collectives(const ProcessPlace& place, const std::vector<Interval>& windows, Shard& shard);
/// Of these processes; empty: of all.
void add_thread_samples(const ProcessPlace& place, const std::set<std::string>& pids, Shard& shard);
void add_thread_waits(const ProcessPlace& place, const std::set<std::string>& pids, Shard& shard);

/// For collectives whose enqueue encloses no launch: kernels of the same operation, in order. Only where none of the
/// trace's collectives was found by its launch.
void match_collectives_in_order(Trace& trace);

}  // namespace profgpu
