// What-if: the duration of the job's steps under a change, from a replay of all ranks' lanes.
//
// Without a change the replay equals the recording, to the nanosecond. A step never takes less than its host work on
// any rank. A collective with missing ranks takes as long as recorded, because one of those may have been the last: the
// saving of free communication is then a lower bound.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyse/job/job_lanes.h"
#include "analyse/job/lateness.h"

namespace profgpu {

struct JobChange {
  /// Own time of these kinds is not spent; kCommunication: collectives end with the last rank's arrival.
  std::array<bool, kLaneTimes> gone{};
  bool free_parts = false;   ///< with that, collectives with missing ranks end with the last arrival that is here
  /// Indices of ranks whose own time between collectives, kind by kind, becomes the others' median.
  std::vector<uint32_t> like_others;
  bool even = false;                 ///< all ranks' own time becomes the median over them, step by step
  std::vector<int64_t> shorter_ns;   ///< by JobLanes::groups: reduction of their transfers; empty: none
  std::vector<int64_t> less_ns;      ///< by JobLanes::points: reduction of own time, below 0 more; empty: none
  bool less_on_host = false;         ///< with that, the host's work shrinks as much
};

/// JobLanes::steps under the change. O(points and calls).
std::vector<Interval> replayed(const JobLanes& lanes, const JobChange& change);

struct WhatIf {
  /// communication_free, input_free, host_bound_free, straggler_median, even_ranks, even_stages; a rule's id
  std::string change;
  std::vector<int> ranks;           ///< that change; empty: all
  int64_t step_ns = 0;              ///< mean over the job's measured steps
  int64_t saved_ns_per_step = 0;    ///< compared with the recorded mean
  double saved_pct = 0;             ///< of that
  bool lower_bound = false;         ///< some collectives have missing ranks
  int64_t most_saved_ns_per_step = 0;   ///< if no missing rank was ever the last; saved_ns_per_step if that is exact

  [[nodiscard]] int64_t recorded_step_ns() const { return step_ns + saved_ns_per_step; }
  void fields(auto&& v) const {
    v("change", change), v("ranks", ranks), v("step_ns", step_ns), v("saved_ns_per_step", saved_ns_per_step);
    v("saved_pct", saved_pct), v("lower_bound", lower_bound);
  }
};

/// Ranks that others wait for. Those with slow links become like the others by transfers as fast as in similar groups.
struct LateRanks {
  std::span<const int> ranks;
  std::span<const SlowLink> links = {};   ///< only of `ranks`
  bool by_turns = false;                  ///< no such ranks, but rotating stragglers
  std::span<const int64_t> even_stages = {};   ///< JobChange::less_ns if stages of pipelines become even; empty: none
};

/// What a rule's change saves of the ranks' own time.
struct OwnSavings {
  std::string_view rule;
  bool on_host = false;                          ///< JobChange::less_on_host
  std::vector<std::vector<LaneSaving>> by_rank;  ///< by index of the rank
};

/// Free communication, free input, launches in time; then late ranks like the others: all together if there are
/// several, and each separately, at most kMaxApart of them; or all ranks even. Empty without measured steps.
std::vector<WhatIf> what_if(const JobLanes& lanes, LateRanks late);
constexpr size_t kMaxApart = 8;

/// Savings of each cause on top, once late ranks are like the others, so that no nanosecond counts twice. Empty if no
/// rank is late.
std::vector<WhatIf> what_if_on_top(const JobLanes& lanes, LateRanks late);

/// Savings of rules' changes, a row each by the rule's id: on top of late ranks if there are any. Without those of
/// ranks that are not joined.
std::vector<WhatIf> what_if_less(const JobLanes& lanes, LateRanks late, std::span<const OwnSavings> savings);

/// The row of a change of all ranks, or of `rank` alone; null: none.
const WhatIf* find_what_if(std::span<const WhatIf> all, std::string_view change, int rank = -1);

}  // namespace profgpu
