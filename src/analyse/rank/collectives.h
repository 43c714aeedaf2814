// Collectives of one rank, by name, type, group and size.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyse/rank/facts.h"
#include "analyse/rank/names.h"
#include "analyse/report/document.h"

namespace profgpu {

struct CollectiveRow {
  std::string name;  ///< nccl-tests' terms: all_reduce, all_gather, reduce_scatter, all_to_all, broadcast ...
  std::string dtype;
  int64_t group_size = 0;       ///< 0: unknown
  std::string process_group;
  int64_t calls = 0;
  std::optional<int64_t> message_bytes;  ///< S of one call, as nccl-tests defines it
  int64_t total_ns = 0;         ///< union of the kernels' time
  int64_t exposed_ns = 0;       ///< of it, where no compute runs
  std::optional<double> algbw_gbps;
  std::optional<double> busbw_gbps;
  std::optional<int64_t> wait_ns;  ///< from this rank's arrivals to the last ranks'
  bool wait_is_lower_bound = false; ///< not all ranks of all calls are in hand
  int64_t measured_calls = 0;   ///< those whose kernel begins in a step that averages are over
  int64_t measured_ns = 0;      ///< union of these

  void fields(auto&& v) const {
    v("name", name), v("dtype", unless_empty(dtype)), v("group_size", only_if(group_size > 0, group_size));
    v("process_group", unless_empty(process_group)), v("calls", calls), v("message_bytes", message_bytes);
    v("total_ns", total_ns), v("exposed_ns", exposed_ns), v("algbw_gbps", algbw_gbps), v("busbw_gbps", busbw_gbps);
    v("wait_ns", wait_ns), v("wait_is_lower_bound", only_if(wait_ns.has_value(), wait_is_lower_bound));
  }
  static std::vector<CollectiveRow> rows(const Facts& facts);
};

/// What the ranks in hand say of one call of this rank.
struct MetCall {
  ActivityId activity;
  int64_t wait_ns = 0;       ///< from its arrival to the last one's
  int64_t transfer_ns = 0;   ///< from the last arrival to the end
  bool whole_group = false;  ///< all ranks of the group are in hand; else later ones may be missing
  int latest_rank = -1;      ///< who arrived last; -1: not known
  int64_t collective = -1;   ///< number that calls of one and the same collective have in common; -1: none
};

/// Calls of this rank that others' traces show as well. Known where several ranks are analysed together (analyse_job).
struct MetCalls {
  std::vector<MetCall> calls;   ///< by activity
  static MetCalls compute(const Facts&) { return {}; }
};

struct Collectives {
  std::vector<CollectiveRow> rows;   ///< longest first, then name, dtype, size
  static Collectives compute(const Facts& facts);
};

/// nccl-tests' term for a recorded collective name or kernel name; empty if it is none.
std::string collective_name(std::string_view recorded);
/// Bytes of one element of a PyTorch dtype name ("BFloat16", "Float", "c10::Half"...); 0: unknown.
int dtype_bytes(std::string_view dtype);
/// nccl-tests' S of one call, from the elements that a rank puts in and gets out; `name` as collective_name() gives it.
std::optional<int64_t> message_bytes(const Collective& call, std::string_view name, std::string_view dtype);
/// busbw = algbw times this, n ranks (nccl-tests' PERFORMANCE.md).
double bus_factor(std::string_view name, int64_t n);

// Calls of collectives of one rank, one by one: what is shown of them in rows, and what calls of other ranks are
// matched with.

/// What calls have in common besides type and size. Strings are as recorded.
struct CollectiveKind {
  std::string group;         ///< process group's name, or a communicator's; empty: not recorded
  std::string description;   ///< "default_pg", "mesh_tp" ...; may be empty
  std::string members;       ///< "[0, 1]"; may be empty
  std::string name;          ///< nccl-tests' term; the kernel's name where nothing else is recorded
  int32_t group_size = 0;    ///< 0: unknown
  int32_t group_rank = -1;   ///< the rank's own place in the group; -1: not recorded
  bool described = false;    ///< recorded with arguments; else the kernel is all that is known

  /// Whether one rank hands something to one other: send, recv. A kernel named SendRecv may be an all-to-all: only
  /// recorded names tell.
  [[nodiscard]] bool is_pair() const { return described && (name == "send" || name == "recv" || name == "send_recv"); }
  bool operator==(const CollectiveKind&) const = default;
};

/// One kernel of a collective.
struct CollectiveCall {
  static constexpr uint32_t kNoStep = UINT32_MAX;

  uint32_t kind = 0;            ///< CollectiveCalls::kinds
  uint32_t row = 0;             ///< CollectiveCalls::rows
  ActivityId activity;
  int64_t start_ns = 0, end_ns = 0;   ///< Unix time where the trace says it, by the rank's own clock
  int64_t launch_ns = 0;        ///< start of the launching call; start_ns where it is not in the file
  int64_t elements = -1;  ///< the larger of in and out, 0 for all-to-all; below 0, of a kernel without arguments: -1 -
                          ///< place of its stream
  int64_t message_bytes = -1;   ///< nccl-tests' S; -1: unknown
  int64_t step = -1;            ///< number of the step that launched it; -1 where the recorded sequence number decides
  int64_t number = 0;           ///< recorded sequence number, or place among its like in the step
  uint32_t step_place = kNoStep;   ///< Steps::steps, of the launch
  int32_t peer = -1;            ///< the other rank of a pair, as the group numbers it; -1: not recorded
  uint16_t queue = 0;           ///< Trace::queues
  Phase phase = Phase::kOther;  ///< that launched it
  bool measured = false;        ///< launched in a step that averages are over
  int64_t exposed_ns = 0;       ///< of it, where no compute runs on its device
  uint32_t cover_begin = 0, cover_end = 0;   ///< CollectiveCalls::cover
};

struct CollectiveCalls {
  std::vector<CollectiveKind> kinds;
  std::vector<CollectiveRow> rows;     ///< without what only other ranks tell; longest first, then name, type, size
  std::vector<CollectiveCall> calls;   ///< in the order of the program: recorded ones, then bare kernels
  /// Compute beside calls, on the clock of the calls; disjoint and in order for each. At most kMostCover pieces a call:
  /// of more, the shortest gaps count as compute.
  std::vector<Interval> cover;
  static constexpr size_t kMaxCover = 64;

  static CollectiveCalls compute(const Facts& facts);
};

/// The rows with what the ranks in hand say of the calls. `met` is by activity.
std::vector<CollectiveRow> rated(const CollectiveCalls& calls, const std::vector<MetCall>& met);

}  // namespace profgpu
