// The large tables of an export of Nsight Systems, row by row, to rows of a Shard.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trace/import/nsight_file.h"
#include "trace/import/sqlite_source.h"
#include "trace/trace_builder.h"

namespace profgpu {

class NsightRecords;

/// A table that can be read in pieces, by any thread.
struct NsightTable {
  std::string_view name;
  std::string_view owner;   ///< the column that tells the process: "globalPid", "globalTid"; empty: none does
  std::vector<std::string_view> columns;
  void (NsightRecords::*add)(const SqliteScan& row);
};
const std::vector<NsightTable>& nsight_tables();

/// What all threads share, and only read.
struct NsightShared {
  const NsightNames& names;
  const NsightScope& scope;
  const class NsightPayloads* payloads = nullptr;   ///< null: the export has none
  int64_t session_ns = -1;   ///< when the recording ended, as ranges that were never closed have it; -1: not told
};

/// A node of a CUDA graph as it was made: by a capture, or cloned from another one.
struct NsightGraphNode {
  uint64_t node = 0, original = 0;   ///< the second: 0 unless it is a clone
  int64_t time_ns = 0;
  int64_t thread = 0;                ///< globalTid
};

/// An NVTX range whose domain and category have names elsewhere in the table.
struct NsightRange {
  size_t host_row = 0;               ///< of the shard
  int64_t process = 0, domain = 0, category = 0;
  std::string arguments;             ///< members of a JSON object
};

/// One importing thread's rows. Budget: 60 ns a row over what SQLite takes.
class NsightRecords {
 public:
  NsightRecords(const NsightShared& shared, Shard& shard);

  void kernel(const SqliteScan& row);
  void copy(const SqliteScan& row);
  void set(const SqliteScan& row);
  void graph(const SqliteScan& row);
  void call(const SqliteScan& row);
  void overhead(const SqliteScan& row);
  void library(const SqliteScan& row);
  void system(const SqliteScan& row);
  void message(const SqliteScan& row);
  void allocation(const SqliteScan& row);
  void cpu_fault(const SqliteScan& row);
  void gpu_fault(const SqliteScan& row);
  void graph_node(const SqliteScan& row);
  void nvtx(const SqliteScan& row);

  [[nodiscard]] Shard& shard() { return shard_; }

  // What is put together when all tables are read.
  std::vector<NsightGraphNode> graph_nodes;
  std::vector<NsightRange> ranges;
  std::vector<NsightRange> open_ranges;       ///< without an end: their rows have no length yet
  std::map<std::pair<int64_t, int64_t>, std::string> domains;                         ///< by process and number
  std::map<std::pair<std::pair<int64_t, int64_t>, int64_t>, std::string> categories;  ///< by domain and number
  int64_t last_range_ns = INT64_MIN;          ///< the end of the last range or mark
  int64_t unclosed = 0;                       ///< ranges that lasted until the recording's end
  std::string first_unclosed_name;
  int64_t graphs = 0, graph_ns = 0, untimed_graphs = 0;
  int64_t cpu_faults = 0, gpu_faults = 0;

 private:
  enum class Use : uint8_t { kKernel, kCall, kText };
  struct Times {
    int64_t start_ns = 0, duration_ns = 0;
  };
  bool times(const SqliteScan& row, Times& out);
  bool instant(const SqliteScan& row, int64_t& time_ns);
  StringId name(int64_t id, Use use);
  StringId name_of(const SqliteScan& row, std::initializer_list<std::pair<int, Use>> columns, std::string_view otherwise);
  uint16_t thread(int64_t global_tid);
  void add_activity(const SqliteScan& row, ActivityKind kind, StringId name, ActivityArgs args);
  HostRow* add_host(const SqliteScan& row, int thread_column, HostKind kind, StringId name);
  void add_range(const SqliteScan& row, const HostRow& host);

  const NsightShared& shared_;
  Shard& shard_;
  std::vector<StringId> names_[3];            // by use and place in the shared texts
  std::unordered_map<int64_t, uint16_t> threads_;
  int64_t last_tid_ = -1;
  uint16_t last_thread_ = 0;
  std::map<int64_t, StringId> copy_names_;    // by its three kinds
  HostRow added_;
};

}  // namespace profgpu
