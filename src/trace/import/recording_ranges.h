// Annotations of a recorded program (NVTX, phases, steps, collectives) as host rows of a Shard.
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

/// Keeps ranges within `windows`, in which device activity was recorded: leaves out those outside and cuts others. No
/// window: keeps all.
void add_ranges(const TraceProcess& process, const std::vector<Interval>& windows, Shard& shard);
/// Each call is the range of its enqueue, with its arguments; the trace's links find the kernels launched from it.
void add_collectives(const TraceProcess& process, const std::vector<Interval>& windows, Shard& shard);
/// `pids`: of these processes; empty: of all.
void add_thread_samples(const TraceProcess& process, const std::set<std::string>& pids, Shard& shard);
void add_thread_waits(const TraceProcess& process, const std::set<std::string>& pids, Shard& shard);

/// Assigns kernels to collectives of the same operation in order, for those whose enqueue encloses no launch. Only if
/// no collective of the trace was found by its launch.
void match_collectives_in_order(Trace& trace);

// Calls of NCCL, recorded by its profiler plugin or from NCCL's own NVTX ranges.

constexpr std::string_view kNcclDomain = "NCCL";   // of NVTX

struct NcclCall {
  std::string_view function;   ///< "AllReduce", "Send" ...
  std::string group;           ///< communicator's name and hash; empty: not recorded
  std::string_view data_type;  ///< "float32"
  int64_t count = -1;          ///< elements, as in the call; -1: not recorded
  int32_t rank = -1;           ///< in the communicator
  int32_t ranks = 0;           ///< of it; 0: not recorded
  int32_t peer = -1;           ///< of Send and Recv
  int64_t sequence = -1;       ///< equal on all ranks; -1: not recorded
};

NcclCall nccl_call(const wire::CollectiveRow& row, const RecordingFile& file);
Collective collective_of(const NcclCall& call, StringPool& strings);

/// From NCCL 2.18 on, payloads of its ranges have the message size, and in newer versions the communicator. They lack
/// the type: sizes are in bytes.
class NcclRanges {
 public:
  /// The call of a range of NCCL's domain; nullopt: not a call, or without a size. `arguments`: members of a JSON
  /// object. Ranges must come in the order in which they end.
  std::optional<NcclCall> call_of(std::string_view name, std::string_view arguments);

 private:
  struct Communicator {
    int32_t rank = -1, ranks = 0;
  };
  std::unordered_map<uint64_t, Communicator> communicators_;   // by hash
};

}  // namespace profgpu
