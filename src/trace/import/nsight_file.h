// What an export of Nsight Systems says of itself: its texts, processes, devices, and how it was recorded.
//
// Tables and columns come and go with versions: the schema is asked, never the version. Names of tables and columns,
// and the numbers of kinds, are those of "SQLite Schema Reference" in Nsight Systems' user guide.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trace/import/importer.h"
#include "trace/import/sqlite_source.h"
#include "trace/string_pool.h"

namespace profgpu {

/// Of a globalTid or a globalPid: the process, as its globalPid.
constexpr int64_t nsight_process(int64_t global_id) { return global_id & ~int64_t{0xFFFFFF}; }
constexpr int64_t nsight_pid(int64_t global_id) { return global_id >> 24 & 0xFFFFFF; }
constexpr int64_t nsight_tid(int64_t global_id) { return global_id & 0xFFFFFF; }

/// Texts by their numbers in StringIds. Read once, then by any thread.
class NsightNames {
 public:
  explicit NsightNames(SqliteSource& source);

  /// Where the text is; invalid: there is none of that number.
  [[nodiscard]] StringId find(int64_t id) const;
  [[nodiscard]] std::string_view text(StringId at) const { return texts_[at]; }
  [[nodiscard]] std::string_view operator[](int64_t id) const { return texts_[find(id)]; }
  [[nodiscard]] size_t size() const { return texts_.size(); }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  StringPool texts_;
  std::vector<StringId> dense_;                   // by number
  std::unordered_map<int64_t, StringId> others_;
  std::string problem_;
};

/// The processes whose rows are read.
class NsightScope {
 public:
  /// All of the file, with `main` the one whose work is analysed; 0: not known.
  static NsightScope whole(int64_t main, std::vector<int64_t> helpers) {
    return NsightScope(main, {}, true, std::move(helpers));
  }
  /// Of a rank; the first one has the calls and ranges too of processes that are no rank's.
  static NsightScope of(const MergedRank& rank, std::vector<int64_t> helpers) {
    return NsightScope(rank.process, rank.processes, rank.first, std::move(helpers));
  }

  /// The condition on a column that holds a globalTid or a globalPid; empty: all rows count.
  [[nodiscard]] std::string condition(std::string_view column) const;
  [[nodiscard]] bool holds(int64_t process) const;
  [[nodiscard]] int64_t main() const { return main_; }
  /// Processes whose work on devices is left out.
  [[nodiscard]] const std::vector<int64_t>& helpers() const { return helpers_; }
  /// What belongs to no process is read with this one.
  [[nodiscard]] bool has_rest() const { return rest_; }

 private:
  NsightScope(int64_t main, std::vector<int64_t> ranks, bool rest, std::vector<int64_t> helpers)
      : main_(main), ranks_(std::move(ranks)), helpers_(std::move(helpers)), rest_(rest) {}
  int64_t main_;
  std::vector<int64_t> ranks_, helpers_;
  bool rest_;
};

struct NsightRank {
  int64_t process = 0;
  std::optional<int> rank;   ///< as MPI numbers it
};
struct NsightProcesses {
  /// With activity on a device, in the order of ranks: as MPI numbers them, else by device, then by pid.
  std::vector<NsightRank> ranks;
  std::vector<int64_t> helpers;   ///< that only copy, beside others that run kernels
};
NsightProcesses nsight_processes(SqliteSource& source);
/// The helpers beside these ranks' processes.
std::vector<int64_t> nsight_helpers(SqliteSource& source, const std::vector<int64_t>& ranks);

/// A device of the machine and, by CUDA, of the main process.
struct NsightDevice {
  DeviceProperties properties;   ///< id: as the main process numbers it
  int32_t index = 0;             ///< as the machine numbers it
  int64_t metrics_id = 0;        ///< as GPU_METRICS numbers it
  std::string uuid, bus;
  bool of_process = true;        ///< the main process has that number for it
};
std::vector<NsightDevice> nsight_devices(SqliteSource& source, const NsightScope& scope);

/// Unix time at which the file's clock is 0; 0: not told.
int64_t nsight_start_ns(SqliteSource& source);
/// When the recording ended, on the file's clock; -1: not told.
int64_t nsight_end_ns(SqliteSource& source);
std::string nsight_host(SqliteSource& source);
/// Of the keys that are known to hold nothing private.
std::vector<std::pair<std::string, std::string>> nsight_metadata(SqliteSource& source);

/// What the recording's own diagnostics warn of, and which tables were not read.
void add_nsight_issues(SqliteSource& source, const NsightScope& scope, std::vector<TraceIssue>& issues);

}  // namespace profgpu
