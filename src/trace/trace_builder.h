// TraceBuilder: rows in any order, from several threads at once, to one sorted and linked Trace.
//
// Each importing thread fills a Shard of its own: rows with ids of that shard's own tables. finish() gathers the
// shards, sorts, nests host ranges, links launches to activity and forward to backward. The result does not depend on
// the order of rows or on which shard they came through.
//
// Budget of finish(): 60 ns a row on one core for rows that come in order of time within their thread.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/blocks.h"
#include "trace/radix_sort.h"
#include "trace/trace.h"

namespace profgpu {

struct HostRow {
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  StringId name;
  uint32_t link = 0;        ///< see HostTable::link
  uint32_t args = UINT32_MAX;  ///< row of the shard's op_args
  uint16_t thread = 0;      ///< of the shard
  HostKind kind = HostKind::kOp;
  bool more = false;        ///< set by finish(): host_collectives or host_arguments has something of it
};
static_assert(sizeof(HostRow) == 32);

struct ActivityRow {
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  StringId name;
  uint32_t correlation = 0;
  uint32_t args = UINT32_MAX;  ///< row of the shard's activity_args
  uint16_t queue = 0;       ///< of the shard
  ActivityKind kind = ActivityKind::kKernel;
  uint32_t collective = UINT32_MAX;  ///< row of the shard's collectives
};

/// What a call launches, in blocks, where its kernel's own record has no grid or counts work items.
struct LaunchShape {
  uint32_t correlation = 0;
  int32_t grid[3] = {0, 0, 0}, block[3] = {0, 0, 0};
};
inline uint64_t sort_key(const LaunchShape& shape) { return shape.correlation; }

/// One end of a flow that joins a forward op to its backward op.
struct FlowEnd {
  int64_t time_ns = 0;
  uint64_t id = 0;
  uint32_t thread = 0;
  bool is_start = false;
};
inline uint64_t sort_key(const FlowEnd& flow) { return flow.id; }
inline uint64_t sort_key(const MemoryEvent& event) { return ordered(event.time_ns); }

using IssueCounts = std::map<TraceIssueKind, int64_t>;

/// One importing thread's rows. Not thread-safe.
class Shard {
 public:
  StringPool strings;
  Blocks<HostRow> host;
  Blocks<ActivityRow> activity;
  Blocks<OpArgs> op_args;
  std::vector<SyncRow> syncs;
  /// Most traces need none of them, whose names would be names that nothing else has: they are in a pool of their own.
  Blocks<DeviceRange> device_ranges;
  StringPool device_range_names;
  std::vector<Collective> collectives;       ///< host and activity are set by finish()
  std::vector<std::pair<size_t, uint32_t>> host_collectives;  ///< host row, collective; ascending
  std::vector<std::pair<size_t, StringId>> host_arguments;    ///< host row, JSON object; ascending
  Blocks<MemoryEvent> memory;                ///< thread: of the shard
  std::vector<CounterValue> counters;
  std::vector<ThreadSample> thread_samples;  ///< thread: of the shard
  std::vector<ThreadWait> thread_waits;      ///< likewise
  Blocks<FlowEnd> flows;
  std::vector<LaunchShape> launch_shapes;
  IssueCounts issues;
  int64_t events = 0;
  int64_t unknown_ns = 0;                    ///< length of rows of kinds that are not known
  std::map<std::string, int64_t> unknown_kinds;   ///< the first few of these kinds, and how many rows each has

  /// Says that the rows that follow come from piece `order` of the input. Pieces need not come in order; knowing it
  /// saves sorting.
  void begin_piece(uint32_t order) { pieces.push_back({order, host.size(), activity.size()}); }

  uint32_t thread(std::string_view process, std::string_view id);
  uint16_t queue(const Queue& queue);
  uint32_t activity_args(const ActivityArgs& args);
  /// A row of op_args with these; most calls of an operator have those of an earlier one.
  uint32_t op_arguments(const OpArgs& args);
  void name_thread(std::string_view process, std::string_view id, std::string_view name);

  std::vector<std::pair<std::string, std::string>> threads;   ///< process, id
  std::map<std::pair<std::string, std::string>, std::string> thread_names;
  std::vector<Queue> queues;
  std::vector<ActivityArgs> activity_args_rows;
  struct Piece {
    uint32_t order;
    size_t host_begin, activity_begin;
  };
  std::vector<Piece> pieces;

 private:
  std::unordered_map<std::string, uint32_t> thread_of_;
  std::string thread_key_;
  std::string last_process_, last_id_;
  uint32_t last_thread_ = UINT32_MAX;
  std::unordered_multimap<uint64_t, uint32_t> args_of_;
  std::array<uint32_t, 1024> latest_op_args_{};   // rows of op_args by hash: the latest of each
};

/// Makes launching, launched_first and launched of what activities say of their launches. In link.cc.
void index_launches(Trace& trace);
/// Sums up CUDA's own allocator by device from where the recording began: MemoryEvent::total_allocated.
void add_memory_totals(Trace& trace);

class TraceBuilder {
 public:
  /// A new shard, which lives as long as the builder. Call before importing threads start.
  Shard& shard() { return shards_.emplace_back(); }
  /// Fields of the trace that are not rows: metadata, devices, distributed ... set by the importer before finish().
  Trace& header() { return trace_; }
  /// What importing threads counted. Call once they are done, before finish().
  [[nodiscard]] IssueCounts issue_counts() const;
  /// Of all shards' Shard::unknown_ns.
  [[nodiscard]] int64_t unknown_ns() const;
  /// Likewise of Shard::unknown_kinds; most rows first.
  [[nodiscard]] std::vector<std::pair<std::string, int64_t>> unknown_kinds() const;
  /// Sorts, nests and links. The builder is empty afterwards.
  Trace finish(int threads);

 private:
  Trace trace_;
  std::deque<Shard> shards_;
};

/// Profiler windows of one rank, in time order and not overlapping, as one trace. Their links stay as they are. In the
/// time of other windows a recording (Trace::recorded) has no ranges and no device activity: what it says of threads
/// stays.
Trace joined_windows(std::vector<Trace> windows);

}  // namespace profgpu
