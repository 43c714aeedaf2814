// Ranks that wait for each other by turns: in each step another one is late, and no single one is to blame.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "job/sampled_clocks.h"
#include "job/stragglers.h"

namespace profgpu {

struct LateByTurns {
  struct Turns {
    int rank = 0;
    int64_t steps = 0;             ///< in which most is waited for it

    template <class V>
    void fields(V&& v) const {
      v("rank", rank), v("steps_latest", steps);
    }
  };
  int64_t wait_ns_per_step = 0;    ///< exposed waiting for ranks that arrive later, median over the ranks
  double wait_pct = 0;             ///< of the mean step
  int64_t steps_measured = 0;      ///< those in which anybody waits
  std::string kind;                ///< of most turns; as WorkComparison::kind
  std::vector<Turns> ranks;        ///< most turns first
  std::vector<std::string> evidence;   ///< of the rank with most turns of that kind

  template <class V>
  void fields(V&& v) const {
    v("wait_ns_per_step", wait_ns_per_step), v("wait_pct", wait_pct), v("kind", kind);
    v("steps_measured", steps_measured), v("ranks", ranks), v("evidence", evidence);
  }
};

/// From 10 % of the step, for arrivals of healthy ranks differ too; only where every rank waits, the one that waits least
/// at least half as long as the median does: else some are late and others are not.
std::optional<LateByTurns> late_by_turns(std::span<const RankDigest> ranks, std::span<const RankClock> clocks,
                                         std::span<const Meeting> all, const Waiting& waits, double mean_step_ns,
                                         const SampleLog& samples);

}  // namespace profgpu
