// Several ranks of one job together.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analyse/job/clocks.h"
#include "analyse/job/job_lanes.h"
#include "analyse/job/matched_collectives.h"
#include "analyse/job/parallelism.h"
#include "analyse/job/rank_digest.h"
#include "analyse/job/stragglers.h"
#include "analyse/job/traffic.h"
#include "analyse/job/what_if.h"

namespace profgpu {

// Ranks whose files are of another run than the others'.

struct OtherRun {
  int rank = 0;
  std::string why;   ///< a clause: "it states a world of 16 ranks, most others one of 4"

  void fields(auto&& v) const { v("rank", rank), v("why", why); }
};

/// By rank, only where it can be told: a rank that states another size of the world than most; or one recorded at least
/// a minute apart from most ranks, by the clocks in the files, whose collectives are not theirs on any clock, or are of
/// other steps. A clock that is wrong by hours puts nobody out: collectives then fit as if it were right. Of as many
/// ranks on both sides, the first one's side is the run. O(calls log calls), where anything looks strange.
std::vector<OtherRun> ranks_of_other_runs(std::span<const RankDigest> ranks);

/// Whether the trace has Unix time, not time from some moment of its own.
bool has_unix_time(const RankDigest& rank);

struct Job {
  std::vector<int> ranks;
  std::optional<int> world_size;         ///< ranks that the job says it has; none: unknown, or less than are here
  std::vector<int> missing_ranks;        ///< of these, those that are not here
  std::map<int, int64_t> step_mean_ns;   ///< measured steps, up to where the job hangs
  double step_spread_pct = 0;            ///< 100 (longest - shortest) / mean of the means
  std::vector<Straggler> stragglers;     ///< latest first, from 5 % of the step
  std::optional<LateByTurns> late_by_turns;   ///< where no straggler is
  std::vector<RankClock> clocks;         ///< in the order of ranks
  /// Exposed waiting per rank, over its measured steps: for ranks that arrive later, and for transfers over a
  /// straggler's slow link beyond those of groups alike.
  std::map<int, int64_t> wait_ns;
  std::map<int, MetCalls> met_calls;     ///< by rank
  std::vector<Traffic> traffic;          ///< collectives by name, group size, hosts, size
  std::vector<Pair> pairs;               ///< point-to-point, by sender and receiver
  std::vector<MissingCalls> missing;     ///< collectives that a rank in hand lacks
  std::vector<OtherRun> other_runs;      ///< ranks that are left out; in none of the rest
  std::vector<std::string> notes;        ///< what keeps ranks from being compared, one sentence each
  std::vector<Parallelism> parallelism;  ///< how the work is shared, most exposed first
  CriticalPath critical_path;            ///< of the measured steps
  std::vector<WhatIf> what_if;           ///< what a step would take otherwise; see find_what_if
  std::vector<WhatIf> what_if_on_top;    ///< once stragglers are like the others; empty without stragglers

  /// Whether a rank never comes to a collective, and the others wait in it.
  [[nodiscard]] bool hangs() const { return first_hang(missing) != nullptr; }
  /// Of a world of many thousands somebody may have but a few ranks.
  [[nodiscard]] std::vector<int> first_missing_ranks() const {
    constexpr size_t kMost = 1024;
    return {missing_ranks.begin(),
            missing_ranks.begin() + static_cast<ptrdiff_t>(std::min(missing_ranks.size(), kMost))};
  }

  /// The `cluster` of the document.
  void fields(auto&& v) const {
    v("ranks", ranks.size()), v("world_size", world_size);
    v("missing_ranks", only_if(world_size.has_value(), first_missing_ranks())), v("other_runs", other_runs);
    v("step_mean_ns_by_rank", step_mean_ns), v("step_spread_pct", step_spread_pct), v("stragglers", stragglers);
    v("late_by_turns", late_by_turns), v("clocks", clocks);
    v("critical_path", critical_path.steps > 0 ? &critical_path : nullptr), v("what_if", what_if);
    v("parallelism", parallelism), v("collectives", traffic), v("pairs", pairs), v("missing", missing),
        v("notes", notes);
  }
};

/// `ranks` in ascending order; one rank gives no stragglers and no clocks. `samples`: of the ranks' devices, if there
/// are.
Job analyse_job(std::span<const RankDigest> ranks, const SampleLog& samples = {});

// What keeps ranks of a job from being compared.

/// One sentence each, without a full stop.
std::vector<std::string> job_notes(const JobView& job);

}  // namespace profgpu
