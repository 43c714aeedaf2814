// Who makes the others wait, and why.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "job/meetings.h"

namespace profgpu {

struct Straggler {
  int rank = 0;
  int64_t excess_ns_per_step = 0;  ///< exposed waiting for it, median over the ranks that it met
  double excess_pct = 0;           ///< of the mean step
  std::string kind;                ///< "late" until a cause is known
};

struct Waiting {
  std::vector<int64_t> total_ns;       ///< exposed waiting for ranks that arrive later, by rank's place, over measured steps
  std::vector<Straggler> stragglers;   ///< latest first, from 5 % of the step
};

/// `mean_step_ns`: over the ranks.
Waiting waiting(std::span<const RankDigest> ranks, std::span<const RankClock> clocks, std::span<const Meeting> all,
                double mean_step_ns);

}  // namespace profgpu
