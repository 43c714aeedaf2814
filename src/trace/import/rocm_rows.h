// What AMD's profilers record, whichever file it stands in, to rows of a Shard.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "trace/trace_builder.h"

namespace profgpu {

struct RocmDispatch {
  std::string_view kernel;
  int64_t start_ns = 0, end_ns = 0;
  int64_t agent = 0, queue = 0, correlation = 0;
  int64_t grid[3] = {0, 0, 0};        ///< work items, as HSA counts them
  int64_t workgroup[3] = {0, 0, 0};
  int64_t lds_bytes = 0, registers = 0;
};

struct RocmCopy {
  std::string_view direction;         ///< "MEMORY_COPY_HOST_TO_DEVICE", "HOST_TO_DEVICE", "CopyHostToDevice"
  int64_t start_ns = 0, end_ns = 0;
  int64_t from = 0, to = 0;           ///< agents
  int64_t queue = 0, correlation = 0;
  int64_t bytes = -1;                 ///< -1: not told
};

/// A call of a library, or a range that the program marked.
struct RocmRange {
  std::string_view name;
  int64_t start_ns = 0, end_ns = 0;
  int64_t process = 0, thread = 0, correlation = 0;
};

class RocmRows {
 public:
  explicit RocmRows(Shard& shard) : shard_(shard) {}

  /// Agents by their numbers in the file. GPUs are devices in the order in which they are added; the others are hosts.
  void add_agent(int64_t number, bool gpu, std::string_view name, int64_t compute_units);
  /// Another number for an agent.
  void add_alias(int64_t alias, int64_t number);
  void add(const RocmDispatch& dispatch);
  void add(const RocmCopy& copy);
  /// Of a kernel that begins then. `value`: over all parts of the device.
  void add_counter(std::string_view counter, double value, int64_t start_ns, int64_t agent);
  /// By the library's name: HIP's are runtime calls, HSA's driver calls, all others library calls.
  void add_call(const RocmRange& call);
  void add_marker(const RocmRange& marker);

  [[nodiscard]] const std::vector<DeviceProperties>& devices() const { return devices_; }
  [[nodiscard]] Shard& shard() { return shard_; }

 private:
  bool add_host(const RocmRange& range, HostKind kind);
  bool in_time(int64_t start_ns, int64_t end_ns);
  int32_t device(int64_t agent);
  StringId name(std::string_view text);

  Shard& shard_;
  std::vector<DeviceProperties> devices_;
  std::map<int64_t, std::optional<int32_t>> agents_;   // nullopt: no GPU
};

/// What could not be read, said; `unread`: records by kinds that profgpu does not know.
void add_rocm_issues(bool complete, const IssueCounts& counts,
                     const std::map<std::string, int64_t>& unread, Trace& trace);

}  // namespace profgpu
