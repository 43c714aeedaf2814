// Samples of devices beside the ranks of a job.
#pragma once

#include <set>
#include <span>
#include <string>

#include "job/clocks.h"
#include "trace/sample.h"

namespace profgpu {

struct JobSamples {
  SampleLog log;                  ///< on the first rank's clock, as far as ranks tell their hosts' clocks
  std::set<std::string> others;   ///< hosts that no rank ran on: their devices are left out
};

/// `hosts`: of the ranks, empty: unknown; then no device is another host's. `clocks`: one a rank, or none.
JobSamples job_samples(SampleLog log, std::span<const std::string> hosts, std::span<const RankClock> clocks);

}  // namespace profgpu
