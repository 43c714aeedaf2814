// What clocks the ranks' devices ran at while their steps ran, from samples of the devices.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "job/clocks.h"
#include "job/rank_digest.h"
#include "trace/sample.h"

namespace profgpu {

struct SampledClock {
  double sm_clock_mhz = 0;          ///< mean over the measured steps; idle times left out where the device says so
  std::optional<double> held_pct;   ///< of the same time: clocks held back by power, temperature or a brake
  std::string held_by;              ///< in words, the most frequent; empty: nothing
};

/// One a rank, in their order, from samples of its host. Where two ranks of a host give their device the same number, or
/// hosts are not known (see trace/sample.h), nothing is.
std::vector<std::optional<SampledClock>> sampled_clocks(std::span<const RankDigest> ranks, const SampleLog& samples);

/// Which ranks samples say nothing of, although their host has some: several of them have one number for their device, as
/// where each process sees a GPU of its own. One sentence a host and number, without a full stop.
std::vector<std::string> unclear_samples(std::span<const RankDigest> ranks, const SampleLog& samples);

// Samples of devices beside the ranks of a job.

struct JobSamples {
  SampleLog log;                  ///< on the first rank's clock, as far as ranks tell their hosts' clocks
  std::set<std::string> others;   ///< hosts that no rank ran on: their devices are left out
};

/// `hosts`: of the ranks, empty: unknown; then no device is another host's. `clocks`: one a rank, or none.
JobSamples job_samples(SampleLog log, std::span<const std::string> hosts, std::span<const RankClock> clocks);

}  // namespace profgpu
