// Why a rank is late: its steps beside those of ranks that do the same.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "analyse/job/clocks.h"
#include "analyse/job/lateness.h"
#include "analyse/job/rank_digest.h"
#include "trace/sample.h"

namespace profgpu {

// What clocks the ranks' devices ran at while their steps ran, from samples of the devices.

struct SampledClock {
  double sm_clock_mhz = 0;          ///< mean over the measured steps; idle times left out where the device says so
  std::optional<double> held_pct;   ///< of the same time: clocks held back by power, temperature or a brake
  std::string held_by;              ///< in words, the most frequent; empty: nothing
};

/// One a rank, in their order, from samples of its host. Where two ranks of a host give their device the same number,
/// or hosts are not known (see trace/sample.h), nothing is.
std::vector<std::optional<SampledClock>> sampled_clocks(std::span<const RankDigest> ranks, const SampleLog& samples);

/// Which ranks samples say nothing of, although their host has some: several of them have one number for their device,
/// as where each process sees a GPU of its own. One sentence a host and number, without a full stop.
std::vector<std::string> unclear_samples(std::span<const RankDigest> ranks, const SampleLog& samples);

// Samples of devices beside the ranks of a job.

struct JobSamples {
  SampleLog log;                  ///< on the first rank's clock, as far as ranks tell their hosts' clocks
  std::set<std::string> others;   ///< hosts that no rank ran on: their devices are left out
};

/// `hosts`: of the ranks, empty: unknown; then no device is another host's. `clocks`: one a rank, or none.
JobSamples job_samples(SampleLog log, std::span<const std::string> hosts, std::span<const RankClock> clocks);

/// One quantity of a late rank's steps beside the same steps of the others. The unit is in the metric's name.
struct SideBySide {
  std::string metric;
  std::optional<double> late, others_median;

  void fields(auto&& v) const { v("metric", metric), v("late", late), v("others_median", others_median); }
};

struct WorkComparison {
  /// slow_compute, low_clocks, slow_input, uneven_work, slow_host, checkpoint, memory_allocation; late: none of these
  /// explains it.
  std::string kind = "late";
  std::vector<SideBySide> side_by_side;   ///< means over the steps in question
  std::vector<std::string> evidence;      ///< short texts
};

struct LateSteps {
  uint32_t rank = 0;               ///< place in the list of ranks
  std::vector<int64_t> numbers;    ///< of its steps in which it is late, ascending
  double excess_ns = 0;            ///< waiting for it in such a step
};

/// `peers`: places of ranks that met it and are not late. A device's time in a step is compute, exposed copies, exposed
/// communication and idleness by cause; the kind is that of the part which is longest beyond the peers' median, if it
/// makes up a third of the excess. Compute is the same work slower if the kernels are the same, or if those that both
/// have explain half of the difference by being slower; else it is other work. Other work is only said to be uneven
/// where the peers do the same as each other, or where every rank's work changes from step to step: stages of a
/// pipeline differ by design.
WorkComparison compare_work(std::span<const RankDigest> ranks, const LateSteps& late, std::span<const uint32_t> peers,
                            std::span<const std::optional<SampledClock>> clocks);

}  // namespace profgpu
