// Who makes the others wait, since when and why.
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

/// Its kind is slow_link, or as it is compared.
struct Straggler : WorkComparison {
  int rank = 0;
  /// Exposed waiting for it, median over the ranks that it met; of a slow link, exposed transfer beyond the usual.
  int64_t excess_ns_per_step = 0;
  double excess_pct = 0;           ///< of the mean step
  std::string host;                ///< empty: unknown
  std::vector<int> together;  ///< ranks that are late for one and the same reason, itself among them; empty: it alone
  /// Measured steps; those in which the others wait for it for at least 5 % of the mean step, by number; and the one in
  /// which they wait longest. Of a slow link: none are told apart.
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

/// Latest first, from 5 % of the step. A host all of whose ranks are late, where another host's are not, is late as
/// one; `hosts_waits`, with the ranks of a host as one, tell it where they hold each other up too. More than half of
/// the ranks late at once is no straggler but a slow job: they do not wait for each other. Of `links` those that make
/// stragglers are kept, with just the ranks that are not late besides.
std::vector<Straggler> stragglers(std::span<const RankDigest> ranks, std::vector<SlowLink>& links, const Waiting& waits,
                                  const std::optional<Waiting>& hosts_waits, double mean_step_ns,
                                  const SampleLog& samples);

/// What a time between ranks is uncertain by: the rank's own error, or the one in the middle of the others', whichever
/// is larger. Of clocks that rest on calls which end together nothing: their errors are bounds for offsets, not for
/// waits.
int64_t clock_doubt_ns(std::span<const RankClock> clocks, int rank);

/// Takes out those that are late by no more than clocks are uncertain; their ranks. A slow link is told without clocks.
std::vector<int> drop_uncertain(std::span<const RankClock> clocks, std::vector<Straggler>& all);

// Ranks that wait for each other by turns: in each step another one is late, and no single one is to blame.

struct LateByTurns {
  struct Turns {
    int rank = 0;
    int64_t steps = 0;             ///< in which most is waited for it

    void fields(auto&& v) const { v("rank", rank), v("steps_latest", steps); }
  };
  int64_t wait_ns_per_step = 0;    ///< exposed waiting for ranks that arrive later, median over the ranks
  double wait_pct = 0;             ///< of the mean step
  int64_t steps_measured = 0;      ///< those in which anybody waits
  std::string kind;                ///< of most turns; as WorkComparison::kind
  std::vector<Turns> ranks;        ///< most turns first
  std::vector<std::string> evidence;   ///< of the rank with most turns of that kind

  void fields(auto&& v) const {
    v("wait_ns_per_step", wait_ns_per_step), v("wait_pct", wait_pct), v("kind", kind);
    v("steps_measured", steps_measured), v("ranks", ranks), v("evidence", evidence);
  }
};

/// From 10 % of the step, for arrivals of healthy ranks differ too; only where every rank waits, the one that waits
/// least at least half as long as the median does: else some are late and others are not.
std::optional<LateByTurns> late_by_turns(const JobView& job, const Waiting& waits, double mean_step_ns,
                                         const SampleLog& samples);

}  // namespace profgpu
