// Ranks that make the others wait: in which steps, and why.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analyse/job/lateness.h"
#include "analyse/job/work_comparison.h"
#include "analyse/report/document.h"

namespace profgpu {

/// Its kind is slow_link, or from the comparison.
struct Straggler : WorkComparison {
  int rank = 0;
  /// Exposed waiting for it, median over the ranks that wait; of a slow link, exposed transfer beyond the usual.
  int64_t excess_ns_per_step = 0;
  double excess_pct = 0;           ///< of the mean step
  std::string host;                ///< empty: unknown
  std::vector<int> together;       ///< ranks, including itself, that are late for the same reason; empty: only itself
  /// Measured steps; numbers of those in which the others wait for it at least 5 % of the mean step; and the one with
  /// the longest wait. Not available for a slow link.
  int64_t steps_measured = 0;
  std::vector<int64_t> late_steps;
  std::optional<int64_t> worst_step;
  int64_t worst_step_excess_ns = 0;

  void fields(auto&& v) const {
    v("rank", rank), v("excess_ns_per_step", excess_ns_per_step), v("excess_pct", excess_pct), v("kind", kind);
    v("host", unless_empty(host)), v("together", together), v("steps_measured", steps_measured);
    v("steps_late", late_steps.size()), v("late_steps", late_steps), v("worst_step", worst_step);
    v("worst_step_excess_ns", only_if(worst_step.has_value(), worst_step_excess_ns));
    v("evidence", evidence), v("side_by_side", side_by_side);
  }
};

/// Latest first, from 5 % of the step. A host is late as a whole if all its ranks are, and another host's ranks are
/// not; `hosts_waits`, with each host's ranks as one, show it if its ranks also hold up each other. More than half of
/// the ranks late at once are not stragglers but a slow job: they do not wait for each other. Of `links` only those
/// that make stragglers are kept, with the ranks that are not late otherwise.
std::vector<Straggler> stragglers(std::span<const RankDigest> ranks, std::vector<SlowLink>& links, const Waiting& waits,
                                  const std::optional<Waiting>& hosts_waits, double mean_step_ns,
                                  const SampleLog& samples);

/// Uncertainty of a wait between ranks: the rank's own clock error or the median of the others', whichever is larger. 0
/// for clocks from calls that end together: their errors bound offsets, not waits.
int64_t clock_doubt_ns(std::span<const RankClock> clocks, int rank);

/// Removes those that are late by no more than the clocks' uncertainty, and returns their ranks. Slow links need no
/// clocks.
std::vector<int> drop_uncertain(std::span<const RankClock> clocks, std::vector<Straggler>& all);

/// Rotating stragglers: a different rank is late in each step.
struct LateByTurns {
  struct Turns {
    int rank = 0;
    int64_t steps = 0;             ///< in which the others wait for it most

    void fields(auto&& v) const { v("rank", rank), v("steps_latest", steps); }
  };
  int64_t wait_ns_per_step = 0;    ///< exposed waiting for ranks that arrive later, median over the ranks
  double wait_pct = 0;             ///< of the mean step
  int64_t steps_measured = 0;      ///< steps in which ranks wait
  std::string kind;                ///< the most frequent WorkComparison::kind
  std::vector<Turns> ranks;        ///< most steps first
  std::vector<std::string> evidence;   ///< of the rank with most steps of that kind

  void fields(auto&& v) const {
    v("wait_ns_per_step", wait_ns_per_step), v("wait_pct", wait_pct), v("kind", kind);
    v("steps_measured", steps_measured), v("ranks", ranks), v("evidence", evidence);
  }
};

/// From 10 % of the step, because arrivals of healthy ranks differ too. Only if every rank waits, at least half as long
/// as the median rank: else some ranks are late and others are not.
std::optional<LateByTurns> late_by_turns(const JobView& job, const Waiting& waits, double mean_step_ns,
                                         const SampleLog& samples);

}  // namespace profgpu
