// What an export of Nsight Systems sampled while the program ran: metrics of the GPUs, and which threads had a core.
#pragma once

#include <string>
#include <vector>

#include "trace/import/nsight_file.h"
#include "trace/import/sqlite_source.h"
#include "trace/trace_builder.h"

namespace profgpu {

/// Metrics that profgpu knows, as samples in Unix time by `start_ns`; the others are counters of the shard.
SampleLog nsight_samples(SqliteSource& source, const std::vector<NsightDevice>& devices, const std::string& host,
                         int64_t start_ns, Shard& shard);

/// Threads' time on a core and off it, from the scheduler's events. Nsight does not tell whether a thread that was off
/// a core could have run.
void add_nsight_scheduling(SqliteSource& source, const NsightScope& scope, Shard& shard);

}  // namespace profgpu
