// The large tables of a recording, chunk by chunk, as rows of a Shard.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trace/import/recording_file.h"
#include "trace/trace_builder.h"

namespace profgpu {

// Names as in PyTorch's traces, so that analyses need only one form.

/// "void gemm<4>(float*)" for "_Z4gemm..."; unchanged if it is not mangled.
std::string demangled(std::string_view name);
/// "Memcpy HtoD (Pageable -> Device)"; numbers are CUPTI's CUpti_ActivityMemcpyKind and CUpti_ActivityMemoryKind.
std::string copy_name(int copy_kind, int from_kind, int to_kind);
std::string set_name(int memory_kind);
/// "cudaLaunchKernel" for CUPTI's "cudaLaunchKernel_ptsz_v7000"; the driver's "cuMemAlloc_v2" stays.
std::string_view call_name(std::string_view recorded);
/// CUpti_ActivitySynchronizationType.
std::string_view sync_name(int type);
/// CUpti_ActivityOverheadKind.
std::string_view overhead_name(uint32_t type);

/// A recorded process, and what its numbers and times become in the trace that it is part of.
struct TraceProcess {
  explicit TraceProcess(const RecordingFile& recorded) : file(recorded), clock(recorded.syncs) {}

  const RecordingFile& file;
  RecordingClock clock;
  int64_t origin_ns = 0;             ///< host time at which the trace's own clock is 0
  uint32_t correlation_base = 0;     ///< added, so that numbers of several processes differ
  int64_t context_base = 0;          ///< likewise for streams
  std::map<uint32_t, int32_t> devices;  ///< its numbers of devices to those of the trace, where they differ

  /// From the host's clock to the trace's; INT64_MIN: damage.
  [[nodiscard]] int64_t time(int64_t host_ns) const;
  [[nodiscard]] int32_t device(uint32_t id) const;
};

/// Longest plausible range or activity: 13 days, as for other formats.
constexpr int64_t kLongestNs = int64_t{1} << 50;

/// A process's threads as a shard's. Rows come in runs of one thread.
class ThreadsOfShard {
 public:
  ThreadsOfShard(const RecordingFile& file, Shard& shard)
      : file_(file), shard_(shard), known_(file.threads.size(), kNone) {}
  uint32_t operator()(uint32_t id);
  /// The one for samples of its Python stack.
  uint32_t sampled_stack(uint32_t id);

 private:
  [[nodiscard]] std::string pid_of(uint32_t id) const;
  static constexpr uint32_t kNone = UINT32_MAX;
  const RecordingFile& file_;
  Shard& shard_;
  std::vector<uint32_t> known_;
};

/// Reads chunks of one process into one shard. One per importing thread. Budget: 60 ns a row.
class RecordingRows {
 public:
  RecordingRows(const TraceProcess& process, Shard& shard);

  /// False: the chunk is damaged, and none of its rows was added.
  bool read(const RecordingFile::Block& block);
  /// The largest correlation number of the process so far.
  [[nodiscard]] uint32_t highest_correlation() const { return highest_correlation_; }

 private:
  struct At {
    int64_t start_ns, duration_ns;
  };
  template <class Row, class Add>
  bool each(const RecordingFile::Block& block, std::vector<Row>& rows, Add add);
  bool in_time(int64_t device_ns, int64_t duration_ns, At& at);
  uint32_t correlation(uint32_t recorded);
  StringId name(uint32_t id, bool is_kernel);
  uint16_t queue(uint32_t id);
  uint32_t kernel_args(const wire::Kernel& row);
  void add_activity(const At& at, StringId name, ActivityKind kind, uint32_t queue_id, uint32_t correlation_id,
                    uint32_t args);
  void add_host(const At& at, StringId name, HostKind kind, uint32_t thread_id, uint32_t link);
  void add(const At& at, const wire::Kernel& row);
  void add(const At& at, const wire::Copy& row);
  void add(const At& at, const wire::Set& row);
  void add(const At& at, const wire::GraphLaunch& row);
  void add(const At& at, const wire::Call& row);
  void add(const At& at, const wire::Sync& row);
  void add(const At& at, const wire::Overhead& row);
  void add(const wire::Allocation& row, int64_t time_ns);

  const TraceProcess& process_;
  const RecordingFile& file_;
  Shard& shard_;
  ThreadsOfShard threads_;
  size_t syncs_before_ = 0;
  uint32_t highest_correlation_ = 0;
  std::vector<StringId> kernel_names_, call_names_;
  std::map<uint32_t, StringId> copy_names_;   // by its three kinds
  std::vector<uint32_t> queues_, shape_args_;
  std::vector<wire::Kernel> kernels_;
  std::vector<wire::Call> calls_;
};

}  // namespace profgpu
