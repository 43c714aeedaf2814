// RankDigest: what a job's view needs of one rank. It grows with steps and collectives, not with events, so that a job
// of any size is read rank by rank and each trace dropped.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyse/collective_calls.h"
#include "analyse/facts.h"
#include "job/call_sites.h"
#include "job/lane.h"
#include "job/rank_work.h"

namespace profgpu {

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
