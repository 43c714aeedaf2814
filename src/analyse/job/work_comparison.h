// Why a rank is late: its steps compared with those of ranks that do the same.
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

/// Clock rates of a rank's device during its steps, from samples.
struct SampledClock {
  double sm_clock_mhz = 0;          ///< mean over the measured steps, without times that the device reports as idle
  std::optional<double> held_pct;   ///< share of that time with clocks reduced by power, temperature or a brake
  std::string held_by;              ///< the most frequent reason, in words; empty: none
};

/// Of one device of the log, over the rank's measured steps; `samples` on the rank's own clock. None: no clock there.
std::optional<SampledClock> sampled_clock(const RankDigest& rank, const SampleLog& samples, uint32_t device);

/// The sampled device of each rank, in their order, by its number on its host; the only device of a log is that of the
/// only rank. Unknown if two ranks of a host give their device the same number, hosts are unknown (see
/// trace/sample.h), or both have a name and these differ.
std::vector<std::optional<uint32_t>> sampled_devices(std::span<const RankDigest* const> ranks, const SampleLog& samples);
/// The clocks of these devices.
std::vector<std::optional<SampledClock>> sampled_clocks(std::span<const RankDigest> ranks, const SampleLog& samples);

/// Ranks whose samples are ambiguous, because several ranks of a host have one number for their device, as when each
/// process sees only its own GPU. One sentence per host and number, without a full stop.
std::vector<std::string> unclear_samples(std::span<const RankDigest> ranks, const SampleLog& samples);

struct JobSamples {
  SampleLog log;                  ///< on the first rank's clock, as far as the hosts' clocks are known
  std::set<std::string> others;   ///< hosts without ranks: their devices are left out
};

/// `hosts`: of the ranks; empty: unknown, then no device is another host's. `clocks`: one per rank, or none.
JobSamples job_samples(SampleLog log, std::span<const std::string> hosts, std::span<const RankClock> clocks);

/// One quantity of a late rank's steps and of the same steps of others. The unit is in the metric's name.
struct SideBySide {
  std::string metric;
  std::optional<double> late, others_median;

  void fields(auto&& v) const { v("metric", metric), v("late", late), v("others_median", others_median); }
};

struct WorkComparison {
  /// slow_compute, low_clocks, slow_input, uneven_work, slow_host, checkpoint, memory_allocation,
  /// longer_between_calls (of MPI, without a device); late: unexplained.
  std::string kind = "late";
  std::vector<SideBySide> side_by_side;   ///< means over the late steps
  std::vector<std::string> evidence;      ///< short texts
};

struct LateSteps {
  uint32_t rank = 0;               ///< index in the list of ranks
  std::vector<StepKey> steps;      ///< in which it is late, ascending
  double excess_ns = 0;            ///< waiting for it in such a step
};

/// `peers`: indices of ranks that wait for it and are not late. A device's time in a step is compute, exposed copies,
/// exposed communication and idle time by cause. The part that exceeds the peers' median most gives the kind, if it
/// makes up a third of the excess. Longer compute is the same work slower if the kernels are the same, or if the common
/// kernels' slowdown explains half of the difference; else it is different work. That counts as uneven only if the
/// peers do the same as each other, or if every rank's work changes from step to step: stages of a pipeline differ by
/// design.
WorkComparison compare_work(std::span<const RankDigest> ranks, const LateSteps& late, std::span<const uint32_t> peers,
                            std::span<const std::optional<SampledClock>> clocks);

}  // namespace profgpu
