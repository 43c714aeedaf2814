// Calls of collectives of one rank, one by one: what is shown of them in rows, and what calls of other ranks are
// matched with.
#pragma once

#include <string>
#include <vector>

#include "analyse/collectives.h"
#include "analyse/names.h"

namespace profgpu {

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
  int64_t elements = -1;        ///< the larger of in and out, 0 for all-to-all; below 0, of a kernel without arguments: -1 - place of its stream
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
  static constexpr size_t kMostCover = 64;

  static CollectiveCalls compute(const Facts& facts);
};

/// The rows with what the ranks in hand say of the calls. `met` is by activity.
std::vector<CollectiveRow> rated(const CollectiveCalls& calls, const std::vector<MetCall>& met);

}  // namespace profgpu
