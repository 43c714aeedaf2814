// Several ranks of one job together.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "job/clocks.h"
#include "job/meetings.h"
#include "job/rank_digest.h"
#include "job/stragglers.h"

namespace profgpu {

struct Job {
  std::vector<int> ranks;
  std::map<int, int64_t> step_mean_ns;   ///< measured steps
  double step_spread_pct = 0;            ///< 100 (longest - shortest) / mean of the means
  std::vector<Straggler> stragglers;     ///< latest first, from 5 % of the step
  std::vector<RankClock> clocks;         ///< in the order of ranks
  /// Exposed waiting for ranks that arrive later, per rank, over its measured steps.
  std::map<int, int64_t> wait_ns;
  std::vector<Transfer> transfers;       ///< by name, type, size
  std::map<int, MetCalls> met_calls;     ///< by rank
};

/// `ranks` in ascending order; one rank gives no stragglers and no clocks.
Job analyse_job(std::span<const RankDigest> ranks);

}  // namespace profgpu
