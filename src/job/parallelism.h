// How a job shares its work, as its collectives show it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "job/group_claims.h"
#include "job/pipeline.h"
#include "job/shared_work.h"
#include "report/report.h"

namespace profgpu {

/// One way to share the work, over groups of one size. Figures of a step are means over measured steps and ranks.
struct Parallelism {
  ParallelKind kind = ParallelKind::kUnknown;
  bool named = false;               ///< names of groups, ranges or kernels say it; else the pattern of calls alone
  int64_t group_size = 0;           ///< 0: unknown
  int64_t groups = 0;               ///< with a rank in hand
  std::vector<int> ranks;           ///< in hand, ascending
  std::optional<int64_t> hosts_per_group;   ///< most hosts that ranks in hand of one group are on
  std::optional<int64_t> replicas;  ///< of kHsdp: size of the second group
  CallCounts counts;                ///< over measured steps of all ranks
  double calls_per_step = 0;
  std::optional<int64_t> bytes_per_step;    ///< none where the size of any call is unknown
  std::optional<double> bytes_spread_pct;   ///< of ranks: 100 (most - least) / mean
  int64_t communication_ns_per_step = 0, exposed_ns_per_step = 0;
  std::optional<GradientUse> gradients;     ///< delays and tails: medians over ranks
  std::optional<GatherUse> gathers;
  std::optional<Pipeline> pipeline;
  int64_t rank_steps = 0;           ///< measured steps of all ranks

  [[nodiscard]] std::optional<double> overlap_pct() const;
  [[nodiscard]] double per_step(CollectiveOp op, StepPart part) const;
};

/// Most exposed first. One rank gives what its calls suggest; ranks without collectives give nothing.
/// O(calls log calls).
std::vector<Parallelism> parallelism_of(std::span<const RankDigest> ranks);

/// "FSDP: parameters all-gathered before use, gradients reduce-scattered"
std::string parallelism_words(const Parallelism& way);
/// The `parallelism` of the JSON document.
Table parallelism_table(const std::vector<Parallelism>& ways);

/// Of one rank alone.
struct RankParallelism {
  std::vector<Parallelism> ways;
  static RankParallelism compute(const Facts& facts);
};

}  // namespace profgpu
