// Collectives of one rank, by name, type, group and size.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "analyse/rank/facts.h"
#include "analyse/rank/names.h"
#include "analyse/report/document.h"

namespace profgpu {

struct CollectiveRow {
  std::string name;             ///< nccl-tests' term: all_reduce, all_gather, reduce_scatter, all_to_all, broadcast ...
  std::string dtype;
  int64_t group_size = 0;       ///< 0: unknown
  std::string process_group;
  int64_t calls = 0;
  std::optional<int64_t> message_bytes;   ///< S of one call, as nccl-tests defines it
  int64_t total_ns = 0;         ///< union of the kernels' time; of MPI without a device, of the calls'
  int64_t exposed_ns = 0;       ///< of that, with no compute beside it
  std::optional<double> algbw_gbps, busbw_gbps;
  std::optional<int64_t> wait_ns;   ///< from this rank's arrivals to the last ranks'
  bool wait_is_lower_bound = false;   ///< traces of some ranks in these calls are missing
  int64_t measured_calls = 0;   ///< those whose kernel begins in a measured step
  int64_t measured_ns = 0;      ///< union of their time in measured steps
  int64_t measured_exposed_ns = 0;   ///< of that, with no compute beside it

  void fields(auto&& v) const {
    v("name", name), v("dtype", unless_empty(dtype)), v("group_size", only_if(group_size > 0, group_size));
    v("process_group", unless_empty(process_group)), v("calls", calls), v("message_bytes", message_bytes);
    v("total_ns", total_ns), v("exposed_ns", exposed_ns), v("algbw_gbps", algbw_gbps), v("busbw_gbps", busbw_gbps);
    v("wait_ns", wait_ns), v("wait_is_lower_bound", only_if(wait_ns.has_value(), wait_is_lower_bound));
  }
  static std::vector<CollectiveRow> rows(const Facts& facts);
};

/// One call of this rank, timed against the other ranks' calls of the same collective.
struct CallTiming {
  ActivityId activity;
  int64_t wait_ns = 0;       ///< from its arrival to the last one's
  int64_t transfer_ns = 0;   ///< from the last arrival to the end
  bool whole_group = false;  ///< traces of all the group's ranks are here; else later ranks may be missing
  int latest_rank = -1;      ///< who arrived last; -1: unknown
  int64_t collective = -1;   ///< number that all calls of one collective share; -1: none
  HostId host = {};          ///< of a call without an activity
};

/// Timings of the calls that match those of other ranks. Only known where several ranks are analyzed together
/// (analyse_job).
struct CallTimings {
  std::vector<CallTiming> calls;   ///< by activity, then by host
  /// Null: no other rank's call matches.
  [[nodiscard]] const CallTiming* find(ActivityId activity, HostId host = {}) const;
  static CallTimings compute(const Facts&) { return {}; }
};

struct Collectives {
  std::vector<CollectiveRow> rows;   ///< longest first, then name, dtype, size
  static Collectives compute(const Facts& facts);
};

/// nccl-tests' term for a recorded collective name or kernel name; empty: not a collective.
std::string collective_name(std::string_view recorded);
/// Bytes of one element of a PyTorch dtype name ("BFloat16", "Float", "c10::Half"...); 0: unknown.
int dtype_bytes(std::string_view dtype);
/// nccl-tests' S of one call, from the elements that a rank puts in and gets out; `name` is from collective_name().
std::optional<int64_t> message_bytes(const Collective& call, std::string_view name, std::string_view dtype);
/// busbw = algbw times this, n ranks (nccl-tests' PERFORMANCE.md).
double bus_factor(std::string_view name, int64_t n);

// A rank's single calls: rows sum them up, and other ranks' calls are matched with them.

/// What calls have in common besides type and size. Strings are as recorded.
struct CollectiveKind {
  std::string group;         ///< name of the process group or communicator; empty: not recorded
  std::string description;   ///< "default_pg", "mesh_tp" ...; may be empty
  std::string members;       ///< "[0, 1]"; may be empty
  std::string name;          ///< nccl-tests' term; the kernel's name if nothing else is recorded
  int32_t group_size = 0;    ///< 0: unknown
  int32_t group_rank = -1;   ///< this rank's number in the group; -1: not recorded
  bool described = false;    ///< recorded with arguments; else only the kernel is known

  /// Whether one rank sends to one other: send, recv. A kernel named SendRecv may be an all-to-all: only recorded names
  /// tell.
  [[nodiscard]] bool is_pair() const { return described && (name == "send" || name == "recv" || name == "send_recv"); }
  auto operator<=>(const CollectiveKind&) const = default;
};

/// One kernel of a collective, or a call of MPI that blocks a program without a device.
struct CollectiveCall {
  static constexpr uint32_t kNoStep = UINT32_MAX;

  uint32_t kind = 0;            ///< index into CollectiveCalls::kinds
  uint32_t row = 0;             ///< index into CollectiveCalls::rows
  ActivityId activity;
  int64_t start_ns = 0, end_ns = 0;   ///< on the rank's own clock; Unix time if the trace has it
  int64_t launch_ns = 0;        ///< start of the launching call; start_ns if the file lacks it
  /// The larger of in and out, 0 for all-to-all. Negative for a kernel without arguments: -1 - index of its stream
  /// among the communicating ones.
  int64_t elements = -1;
  int64_t message_bytes = -1;   ///< nccl-tests' S; -1: unknown
  int64_t step = -1;            ///< number of the launching step; -1: the recorded sequence number identifies the call
  int64_t number = 0;           ///< recorded sequence number, or position among similar calls of the step
  uint32_t step_index = kNoStep;   ///< launching step, in Steps::steps
  int32_t peer = -1;            ///< the other rank of a pair, as the group numbers it; -1: not recorded
  uint16_t queue = 0;           ///< index into Trace::queues
  Phase phase = Phase::kOther;  ///< that launched it
  bool measured = false;        ///< launched in a measured step
  int64_t exposed_ns = 0;       ///< of its time, with no compute on its device
  uint32_t cover_begin = 0, cover_end = 0;   ///< rows of CollectiveCalls::cover
  HostId host = {};             ///< the call of MPI; `activity` is then not valid

  [[nodiscard]] Interval time() const { return {start_ns, end_ns}; }
};

struct CollectiveCalls {
  std::vector<CollectiveKind> kinds;
  std::vector<CollectiveRow> rows;     ///< without figures that need other ranks; longest first, then name, type, size
  std::vector<CollectiveCall> calls;   ///< in program order: recorded ones, then bare kernels
  /// Compute beside calls, on the calls' clock; disjoint and ordered per call. At most kMaxCover pieces per call:
  /// beyond that the shortest gaps count as compute.
  std::vector<Interval> cover;
  static constexpr size_t kMaxCover = 64;

  static CollectiveCalls compute(const Facts& facts);
};

/// The rows, with waits and rates from `timings`.
std::vector<CollectiveRow> rated(const CollectiveCalls& calls, const CallTimings& timings);

}  // namespace profgpu
