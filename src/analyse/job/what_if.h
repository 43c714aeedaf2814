// What the job's steps would have taken had something been otherwise: the lanes of all ranks replayed with the change.
//
// With nothing changed the replay is the recording, to the nanosecond. A step never takes less than its host has to do
// on any rank. A collective of which not all ranks are in hand takes what it took, whatever the change: who is not in
// hand may have been the last, so that free communication saves at least what is said.
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

/// What is otherwise.
struct JobChange {
  /// Own time of these kinds is not spent; kCommunication: collectives end when the last rank has come.
  std::array<bool, kLaneTimes> gone{};
  bool free_parts = false;   ///< then those of which not all ranks are in hand end when the last of these has come
  /// Ranks' places: from collective to collective their own time, kind by kind, is the others' median.
  std::vector<uint32_t> like_others;
  bool even = false;                     ///< all ranks are: in each step the median over them
  std::vector<int64_t> shorter_ns;   ///< by JobLanes::groups: their transfers take that much less; empty: as they were
};

/// JobLanes::steps, as they would have been. O(points and calls).
std::vector<Interval> replayed(const JobLanes& lanes, const JobChange& change);

struct WhatIf {
  std::string change;               ///< communication_free, input_free, host_bound_free, straggler_median, even_ranks
  std::vector<int> ranks;           ///< whom it changes; empty: all
  int64_t step_ns = 0;              ///< mean over the job's measured steps
  int64_t saved_ns_per_step = 0;    ///< against the mean of the recorded ones
  double saved_pct = 0;             ///< of that
  bool lower_bound = false;         ///< not all ranks of all collectives are in hand
  int64_t most_saved_ns_per_step = 0;   ///< were no other rank ever the last; saved_ns_per_step where that is exact

  void fields(auto&& v) const {
    v("change", change), v("ranks", ranks), v("step_ns", step_ns), v("saved_ns_per_step", saved_ns_per_step);
    v("saved_pct", saved_pct), v("lower_bound", lower_bound);
  }
};

/// Ranks that others wait for, and those of them whose links are slow: these are like the others where transfers of
/// their slow groups take what they take in groups alike.
struct LateRanks {
  std::span<const int> ranks;
  std::span<const SlowLink> links = {};   ///< only of `ranks`
  bool by_turns = false;                  ///< no such ranks, but each is late at times
};

/// Free communication, free input, launches in time, then late ranks like the others: all together where there are
/// several, then each apart, at most kMostApart of them; or all ranks even. None without measured steps.
std::vector<WhatIf> what_if(const JobLanes& lanes, LateRanks late);
constexpr size_t kMaxApart = 8;

/// What each cause of waiting would save on top once late ranks are like the others, so that no nanosecond is blamed on
/// both. None where nobody is late.
std::vector<WhatIf> what_if_on_top(const JobLanes& lanes, LateRanks late);

/// The row of a change of all ranks, or of just `rank`; null: there is none.
const WhatIf* find_what_if(std::span<const WhatIf> all, std::string_view change, int rank = -1);

}  // namespace profgpu
