// RankDigest: what a job's view needs of one rank. It grows with steps and collectives, not with events, so that a job
// of any size is read rank by rank and each trace dropped.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyse/job/lane.h"
#include "analyse/rank/collectives.h"
#include "analyse/rank/facts.h"
#include "analyse/rank/idle.h"
#include "analyse/rank/names.h"

namespace profgpu {

// What each step of a rank did, so that steps of different ranks can be told apart: the same work slower, or other
// work.

/// Of one step, on the rank's busiest device. Kernels are those that compute and that the step launched; only steps
/// that averages are over have them.
struct StepWork {
  std::array<int64_t, kPhases> phase_ns{};        ///< parts of the step's wall time; own names are kOther
  std::array<int64_t, kIdleCauses> idle_ns{};     ///< gaps, clipped to the step
  /// Lengths of unions, clipped to the step.
  int64_t compute_ns = 0, exposed_communication_ns = 0, exposed_memory_ns = 0;
  int64_t kernels = 0;
  int64_t kernel_ns = 0;        ///< sum of their durations
  uint64_t work = 0;  ///< equal where the kernels' names, grids and blocks are, whatever their order; 0: no kernel
  int64_t input_elements = -1;  ///< of the inputs of the ops that launched them; -1: not recorded
};

/// Kernels of one name, grid and block in the steps that averages are over.
struct KernelWork {
  uint64_t key = 0;             ///< the same on every rank
  std::string name;             ///< short
  int64_t count = 0, total_ns = 0;
  [[nodiscard]] double mean_ns() const { return static_cast<double>(total_ns) / static_cast<double>(count); }
};

struct RankWork {
  static constexpr size_t kMaxKernels = 64;

  std::vector<StepWork> steps;       ///< of Steps::steps, one for one
  std::vector<KernelWork> kernels;   ///< dearest first
  static RankWork compute(const Facts& facts);
};

// What the program's own ranges say of a rank's collectives: what was called, for whom, and when gradients were made.

enum class CollectiveOp : uint8_t {
  kUnknown, kAllReduce, kAllGather, kReduceScatter, kAllToAll, kBroadcast, kReduce, kSend, kRecv, kSendRecv
};
constexpr int kCollectiveOps = 10;
/// nccl-tests' term; "other" for kUnknown.
std::string_view collective_op_name(CollectiveOp op);

struct CallSite {
  CollectiveOp op = CollectiveOp::kUnknown;
  bool gradient_hook = false;   ///< launched where autograd hands over a parameter's gradient
  /// Of a bare send or receive, as its range has them ("nccl:send 0->1"): places in a group that nobody names; -1:
  /// unknown.
  int32_t own = -1, peer = -1;
};

/// Libraries that show in the names of ranges, ops or Python frames.
struct JobLibraries {
  bool ddp = false, fsdp = false, deepspeed = false, megatron = false, torchrec = false;
};

struct CallSites {
  std::vector<CallSite> calls;       ///< of CollectiveCalls::calls, one for one
  std::vector<Interval> backward;    ///< backward passes, one a micro-batch, in order, on the clock of the calls
  JobLibraries libraries;

  static CallSites compute(const Facts& facts);
};

struct DigestStep {
  int64_t index = 0;          ///< the number in its name, else its place
  int64_t start_ns = 0;       ///< Unix time where the trace says it, by the rank's own clock
  int64_t duration_ns = 0;
  bool measured = false;      ///< one that averages are over
  [[nodiscard]] Interval interval() const { return {start_ns, start_ns + duration_ns}; }
};

struct DigestMemory {
  std::optional<int64_t> peak_allocated_bytes, peak_reserved_bytes, capacity_bytes;
};

struct RankDigest {
  int rank = 0;
  std::optional<int> world_size;
  std::string host;             ///< empty: unknown
  std::optional<ClockStatement> clock;   ///< what the host says of it
  int32_t device = -1;          ///< the busiest; -1: none
  std::string device_name;      ///< its name; empty: unknown
  Interval extent;              ///< of the trace, on the clock of the steps
  bool annotated = false;       ///< steps come from ranges of the program
  std::vector<DigestStep> steps;   ///< in order of time; of the trace's Steps, one for one
  CollectiveCalls calls;
  CallSites sites;
  RankWork work;
  Lane lane;
  DigestMemory memory;

  [[nodiscard]] int64_t measured_steps() const;
  [[nodiscard]] int64_t measured_wall_ns() const;
  /// Of a measured step; 0 with none.
  [[nodiscard]] int64_t mean_step_ns() const;
  [[nodiscard]] const CollectiveKind& kind(const CollectiveCall& call) const { return calls.kinds[call.kind]; }
  /// Compute beside a call, on the call's clock.
  [[nodiscard]] std::span<const Interval> cover(const CollectiveCall& call) const {
    return std::span(calls.cover).subspan(call.cover_begin, call.cover_end - call.cover_begin);
  }
  /// Of the step that launched a call, where the program numbers its steps.
  [[nodiscard]] std::optional<int64_t> step_number(const CollectiveCall& call) const {
    const bool known = annotated && call.step_place < steps.size();
    return known ? std::optional(steps[call.step_place].index) : std::nullopt;
  }
  /// What the program's ranges say of a call of `calls`.
  [[nodiscard]] const CallSite& site(const CollectiveCall& call) const;
  /// nccl-tests' term for a call of `calls`: as recorded, else as the program's ranges or its kernel's name have it.
  [[nodiscard]] std::string call_name(const CollectiveCall& call) const;
  /// Whether it hands something to one other rank, or may: a bare SendRecv kernel whose range does not say what it is.
  [[nodiscard]] bool may_be_pair(const CollectiveCall& call) const;
};

RankDigest rank_digest(int rank, const Facts& facts);
/// Without work and lane, which take longest: enough to tell what its calls are for.
RankDigest calls_digest(int rank, const Facts& facts);

// What is known of a rank's events after its trace is gone: where they lie in time, and how many there are.

/// What is shown of a trace that is cut to a part of its time: host ranges up to the part's ends, and whole whatever a
/// device ran in it or was given in it.
class TracePart {
 public:
  static constexpr Interval kAllTime{INT64_MIN, INT64_MAX};
  explicit TracePart(const Trace& trace, Interval part = kAllTime) : trace_(trace), part_(part) {}

  /// What is shown of a range; none: nothing.
  [[nodiscard]] std::optional<Interval> shown(Interval range) const;
  [[nodiscard]] bool shows(int64_t time_ns) const { return part_.start <= time_ns && time_ns <= part_.end; }
  [[nodiscard]] bool shows(HostId h) const { return shown(trace_.host.interval(h)).has_value(); }
  [[nodiscard]] bool shows(ActivityId a) const;

 private:
  const Trace& trace_;
  Interval part_;
};

struct RankOutline {
  std::optional<Interval> part =
      TracePart::kAllTime;                  ///< that is shown; none: the rank has nothing of what was asked for
  int64_t base_time_ns = 0;                 ///< as Trace has it
  std::string host;                         ///< empty: unknown
  /// From the first to the last time of any range or activity that is shown; none: the trace is empty.
  std::optional<Interval> extent;
  std::vector<int64_t>
      first_others_ns;  ///< first memory event, counter, wait, wait of a thread; of a rank that is not cut
  int64_t events = 0;                       ///< ranges and activities that are shown
  std::vector<ActivityId> calls;            ///< of a rank that is cut: kernels of collectives that are shown, ascending

  [[nodiscard]] bool is_cut() const { return part != TracePart::kAllTime; }
  /// O(events) if cut.
  static RankOutline of(const Facts& facts, std::optional<Interval> part = TracePart::kAllTime);
};

}  // namespace profgpu
