// What was read of a job, as a report.
#pragma once

#include <memory>
#include <vector>

#include "gather/rank_result.h"
#include "import/input_units.h"

namespace profgpu {

struct JobRead {
  std::vector<InputSource> sources;   ///< in the order of the paths; of a folder, by name
  std::vector<RankResult> ranks;      ///< by rank; none: samples alone
  SampleLog samples;                  ///< of sample files, as they have them
  /// Where it is known already, and every rank's collectives with it; null: to be worked out from the digests.
  std::unique_ptr<const Job> job;
};

/// Everything but what is worth doing next.
Report job_report(JobRead read, const Thresholds& thresholds);

}  // namespace profgpu
