// Energy of each rank's steps, and of all ranks together: joins samples of devices with what was kept of the ranks.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "analyse/job/job.h"
#include "analyse/job/rank_digest.h"
#include "analyse/job/work_comparison.h"
#include "analyse/rank/energy.h"

namespace profgpu {

/// Ranks whose device is sampled, together.
struct JobEnergy {
  int64_t ranks = 0, known_ranks = 0;
  EnergyTotal total;     ///< sums over the known ranks; a step is the job's: all of them in one step

  void fields(auto&& v) const {
    v("ranks", ranks), v("known_ranks", known_ranks), total.fields(v);
  }
};

struct RanksEnergy {
  std::vector<EnergySection> sections;   ///< in the order of the ranks
  std::optional<JobEnergy> job;          ///< none: no rank's is known
};

/// `samples` are those of job_samples(): on the first rank's clock. `job` is null for one rank.
RanksEnergy ranks_energy(std::span<const RankDigest* const> ranks, const Job* job, const SampleLog& samples,
                         const EnergyRates& rates);

}  // namespace profgpu
