// RankDigest: what a job's view needs of one rank. It grows with steps and collectives, not with events, so that a job
// of any size is read rank by rank and each trace dropped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyse/collective_calls.h"
#include "analyse/facts.h"
#include "job/lane.h"
#include "job/rank_work.h"

namespace profgpu {

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
  /// Of a bare send or receive, as its range has them ("nccl:send 0->1"): places in a group that nobody names; -1: unknown.
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

}  // namespace profgpu
