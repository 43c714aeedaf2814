// NVTX ranges of an export of Nsight Systems, once all rows are read: names of their domains, ends of those that were
// still open, and NCCL's calls.
#pragma once

#include <deque>
#include <string>

#include "trace/import/nsight_rows.h"

namespace profgpu {

/// Ranges without an end last until the last NVTX event of the file, as `nsys stats` counts them.
void finish_nsight_ranges(SqliteSource& source, const NsightScope& scope, std::deque<NsightRecords>& parts);

/// The calls that were captured for activities of graphs, where the export lists the nodes. After
/// TraceBuilder::finish().
void link_nsight_graphs(const std::deque<NsightRecords>& parts, Trace& trace);

}  // namespace profgpu
