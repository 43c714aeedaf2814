// What a recorded program says of itself (NVTX, phases, steps, collectives) to host rows of a Shard.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trace/import/recording_rows.h"

namespace profgpu {

/// Ranges count where device activity was recorded too: those that lie outside `windows` are left out, others are cut
/// to them. No window: all count.
void add_ranges(const TraceProcess& process, const std::vector<Interval>& windows, Shard& shard);
/// Each call is a range of its enqueue, with its arguments; the trace's own links find the kernels launched from it.
void add_collectives(const TraceProcess& process, const std::vector<Interval>& windows, Shard& shard);
/// Of these processes; empty: of all.
void add_thread_samples(const TraceProcess& process, const std::set<std::string>& pids, Shard& shard);
void add_thread_waits(const TraceProcess& process, const std::set<std::string>& pids, Shard& shard);

/// For collectives whose enqueue encloses no launch: kernels of the same operation, in order. Only where none of the
/// trace's collectives was found by its launch.
void match_collectives_in_order(Trace& trace);

// Calls of NCCL: as its profiler plugin had them recorded, or as NCCL's own NVTX ranges tell of them.

constexpr std::string_view kNcclDomain = "NCCL";   // of NVTX

struct NcclCall {
  std::string_view function;   ///< "AllReduce", "Send" ...
  std::string group;           ///< communicator's name and hash; empty: not recorded
  std::string_view data_type;  ///< "float32"
  int64_t count = -1;          ///< elements, as the call has it; -1: not recorded
  int32_t rank = -1;           ///< in the communicator
  int32_t ranks = 0;           ///< of it; 0: not recorded
  int32_t peer = -1;           ///< of Send and Recv
  int64_t sequence = -1;       ///< the same on all ranks; -1: not recorded
};

NcclCall nccl_call(const wire::CollectiveRow& row, const RecordingFile& file);
Collective collective_of(const NcclCall& call, StringPool& strings);

/// From NCCL 2.18 on payloads of its ranges say how large a message is, in newer ones over which communicator too.
/// Types are not told: sizes are bytes.
class NcclRanges {
 public:
  /// The call that a range of NCCL's domain is; nullopt if it is none, or its size is missing. `arguments`: members of
  /// a JSON object. Ranges come in the order in which they end.
  std::optional<NcclCall> call_of(std::string_view name, std::string_view arguments);

 private:
  struct Place {
    int32_t rank = -1, ranks = 0;
  };
  std::unordered_map<uint64_t, Place> communicators_;   // by hash
};

}  // namespace profgpu
