// RankDigest: what a job's analyses need of one rank. It grows with steps and collectives, not with events, so that
// jobs of any size are read rank by rank, without keeping traces.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyse/job/lane.h"
#include "analyse/rank/collectives.h"
#include "analyse/rank/energy.h"
#include "analyse/rank/facts.h"
#include "analyse/rank/idle.h"
#include "analyse/rank/names.h"

namespace profgpu {

// The work of a rank's steps, to compare steps of different ranks: the same work slower, or different work.

/// One step on the rank's busiest device. Kernels are compute kernels that the step launched, only of measured steps.
struct StepWork {
  std::array<int64_t, kPhases> phase_ns{};        ///< parts of the step's wall time; own phases are kOther
  std::array<int64_t, kIdleCauses> idle_ns{};     ///< gaps, clipped to the step
  /// Lengths of unions, clipped to the step.
  int64_t compute_ns = 0, exposed_communication_ns = 0, exposed_memory_ns = 0;
  int64_t outside_mpi_ns = 0;   ///< of the host, of programs that call MPI and use no device
  int64_t outside_waits_ns = 0;   ///< without a device: not waiting for the host's collectives; 0: there are none
  int64_t kernels = 0;
  int64_t kernel_ns = 0;        ///< sum of their durations
  uint64_t work = 0;            ///< hash of the kernels' names, grids and blocks in any order; 0: no kernel
  int64_t input_elements = -1;  ///< of the inputs of the ops that launched them; -1: not recorded
};

/// Kernels of one name, grid and block in the measured steps.
struct KernelWork {
  uint64_t key = 0;             ///< the same on every rank
  std::string name;             ///< short
  int64_t count = 0, total_ns = 0;
  [[nodiscard]] double mean_ns() const { return static_cast<double>(total_ns) / static_cast<double>(count); }
};

struct RankWork {
  static constexpr size_t kMaxKernels = 64;

  std::vector<StepWork> steps;       ///< one per Steps::steps
  std::vector<KernelWork> kernels;   ///< most expensive first
  static RankWork compute(const Facts& facts);
};

// Where the program calls a rank's collectives: from its own ranges.

enum class CollectiveOp : uint8_t {
  kUnknown, kAllReduce, kAllGather, kReduceScatter, kAllToAll, kBroadcast, kReduce, kSend, kRecv, kSendRecv
};
constexpr int kCollectiveOps = 10;
/// nccl-tests' term; "other" for kUnknown.
std::string_view collective_op_name(CollectiveOp op);

struct CallSite {
  CollectiveOp op = CollectiveOp::kUnknown;
  bool gradient_hook = false;   ///< launched from autograd's hook for a parameter's gradient
  /// Of a bare send or receive, from its range ("nccl:send 0->1"): numbers in an unnamed group; -1: unknown.
  int32_t own = -1, peer = -1;
};

/// Libraries, from names of ranges, ops and Python frames.
struct JobLibraries {
  bool ddp = false, fsdp = false, deepspeed = false, megatron = false, torchrec = false;
};

struct CallSites {
  std::vector<CallSite> calls;       ///< one per CollectiveCalls::calls
  std::vector<Interval> backward;    ///< backward passes, one per micro-batch, in order, on the calls' clock
  JobLibraries libraries;

  static CallSites compute(const Facts& facts);
};

/// A step among those of its rank: how often the numbers began anew before it, and its number.
using StepKey = std::pair<int64_t, int64_t>;

struct DigestStep {
  int64_t index = 0;          ///< the number in its name, else its position
  int64_t start_ns = 0;       ///< on the rank's own clock; Unix time if the trace has it
  int64_t duration_ns = 0;
  bool measured = false;      ///< counts for averages
  int64_t turn = 0;           ///< how often numbers began anew: programs may count the steps of each epoch
  [[nodiscard]] Interval interval() const { return {start_ns, start_ns + duration_ns}; }
  [[nodiscard]] StepKey key() const { return {turn, index}; }
};

struct DigestMemory {
  std::optional<int64_t> peak_allocated_bytes, peak_reserved_bytes, capacity_bytes;
};

struct RankDigest {
  int rank = 0;
  std::optional<int> world_size;
  std::string host;             ///< empty: unknown
  std::optional<ClockStatement> clock;   ///< the host's own statement about its clock
  int32_t device = -1;          ///< the busiest; -1: none
  std::string device_name;      ///< empty: unknown
  std::string device_uuid;      ///< empty: unknown
  int32_t host_device = -1;     ///< its number on the host, where the recording tells it; -1: only `device` is known
  Interval extent;              ///< of the trace, on the steps' clock
  bool annotated = false;       ///< steps come from the program's ranges
  std::vector<DigestStep> steps;   ///< in time order; one per Steps::steps
  CollectiveCalls calls;
  CallSites sites;
  RankWork work;
  Lane lane;
  DigestMemory memory;
  EnergyTimes energy;

  [[nodiscard]] int64_t measured_steps() const;
  [[nodiscard]] int64_t measured_wall_ns() const;
  /// Of the measured steps; 0: there are none.
  [[nodiscard]] int64_t mean_step_ns() const;
  [[nodiscard]] const CollectiveKind& kind(const CollectiveCall& call) const { return calls.kinds[call.kind]; }
  /// Compute beside a call, on the call's clock.
  [[nodiscard]] std::span<const Interval> cover(const CollectiveCall& call) const {
    return std::span(calls.cover).subspan(call.cover_begin, call.cover_end - call.cover_begin);
  }
  /// Number of the step that launched a call; none: unknown, or the program does not number its steps.
  [[nodiscard]] std::optional<int64_t> step_number(const CollectiveCall& call) const {
    const bool known = annotated && call.step_index < steps.size();
    return known ? std::optional(steps[call.step_index].index) : std::nullopt;
  }
  /// For a call of `calls`.
  [[nodiscard]] const CallSite& site(const CollectiveCall& call) const;
  /// nccl-tests' term for a call of `calls`: as recorded, else from the program's ranges or the kernel's name.
  [[nodiscard]] std::string call_name(const CollectiveCall& call) const;
  /// Whether it is, or may be, between two ranks: a bare SendRecv kernel whose range does not name the collective may
  /// be.
  [[nodiscard]] bool may_be_pair(const CollectiveCall& call) const;
};

RankDigest rank_digest(int rank, const Facts& facts);
/// Without work and lane, which are expensive: enough to find what its calls are for.
RankDigest calls_digest(int rank, const Facts& facts);

// What remains of a rank's events after its trace is dropped: their extent in time, and their number.

/// A trace cut to a part of its time: host ranges are clipped; activities that ran or were launched in it are whole.
class TracePart {
 public:
  static constexpr Interval kAllTime{INT64_MIN, INT64_MAX};
  explicit TracePart(const Trace& trace, Interval part = kAllTime) : trace_(trace), part_(part) {}

  /// The shown part of a range; none: it is not shown.
  [[nodiscard]] std::optional<Interval> shown(Interval range) const;
  [[nodiscard]] bool shows(int64_t time_ns) const { return part_.start <= time_ns && time_ns <= part_.end; }
  [[nodiscard]] bool shows(HostId h) const { return shown(trace_.host.interval(h)).has_value(); }
  [[nodiscard]] bool shows(ActivityId a) const;

 private:
  const Trace& trace_;
  Interval part_;
};

struct RankOutline {
  std::optional<Interval> part = TracePart::kAllTime;   ///< that is shown; none: nothing of the rank
  int64_t base_time_ns = 0;                 ///< Trace::base_time_ns
  std::string host;                         ///< empty: unknown
  /// From the first to the last time of any shown range or activity; none: the trace is empty.
  std::optional<Interval> extent;
  std::vector<int64_t> first_others_ns;     ///< first memory event, counter, wait, thread wait; only if not cut
  int64_t events = 0;                       ///< shown ranges and activities
  std::vector<ActivityId> calls;            ///< only if cut: shown kernels of collectives, ascending

  [[nodiscard]] bool is_cut() const { return part != TracePart::kAllTime; }
  /// O(events) if cut.
  static RankOutline of(const Facts& facts, std::optional<Interval> part = TracePart::kAllTime);
};

}  // namespace profgpu
