// A pipeline stage that computes longer than the others: they wait for it in each micro-batch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analyse/job/job_lanes.h"
#include "analyse/job/parallelism.h"

namespace profgpu {

struct UnevenStage {
  int64_t stage = 0;
  std::vector<int> ranks;               ///< of the stage, ascending
  int64_t compute_ns_per_step = 0;
  int64_t others_ns_per_step = 0;       ///< median of the other stages
  double excess_pct = 0;                ///< the difference, of the mean step
  bool more_work = false;               ///< else the kernels that the stages share take longer there
};

/// The stage with most compute, if it has over a tenth more than the others' median; only if all stages are known.
std::optional<UnevenStage> uneven_stage(std::span<const RankDigest> ranks, std::span<const Parallelism> ways);

/// JobChange::less_ns without it: with more work, every stage computes as long as the mean; else this one as long as
/// the others.
std::vector<int64_t> less_with_even_stages(const JobLanes& lanes, std::span<const Parallelism> ways,
                                           const UnevenStage& uneven);

}  // namespace profgpu
