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
#include "analyse/job/uneven_stage.h"
#include "analyse/job/what_if.h"

namespace profgpu {

/// A rank whose file is from another run than the others'.
struct OtherRun {
  int rank = 0;
  std::string why;   ///< a clause: "its world size is 16 ranks, most others' is 4"

  void fields(auto&& v) const { v("rank", rank), v("why", why); }
};

/// By rank, if it is certain: a rank with another world size than most; or one recorded at least a minute apart from
/// most, by the clocks in the files, whose collectives match theirs on no clock, or belong to other steps. A clock that
/// is wrong by hours excludes no rank: its collectives still fit. If both sides have equally many ranks, the first
/// rank's side is the run. O(calls log calls), only if anything looks suspicious.
std::vector<OtherRun> ranks_of_other_runs(std::span<const RankDigest> ranks);

/// Whether the trace has Unix time, not time from an epoch of its own.
bool has_unix_time(const RankDigest& rank);

struct Job {
  std::vector<int> ranks;
  std::optional<int> world_size;         ///< as recorded; none: unknown, or fewer than are here
  std::vector<int> missing_ranks;        ///< ranks of the world without a trace
  std::map<int, int64_t> step_mean_ns;   ///< over measured steps, up to where the job hangs
  double step_spread_pct = 0;            ///< 100 (longest - shortest) / mean of the means
  std::vector<Straggler> stragglers;     ///< latest first, from 5 % of the step
  std::optional<LateByTurns> late_by_turns;   ///< only without stragglers
  std::vector<RankClock> clocks;         ///< in the order of ranks
  /// Exposed waiting per rank, over its measured steps: for ranks that arrive later, and for transfers over a
  /// straggler's slow link beyond those of similar groups.
  std::map<int, int64_t> wait_ns;
  std::map<int, CallTimings> call_timings;   ///< by rank
  std::vector<Traffic> traffic;          ///< collectives by name, group size, hosts, size
  std::vector<Pair> pairs;               ///< point-to-point, by sender and receiver
  std::vector<MissingCalls> missing;     ///< collectives that a rank lacks
  std::vector<OtherRun> other_runs;      ///< ranks that are left out of everything else
  std::vector<std::string> notes;        ///< what limits the comparison of ranks, one sentence each
  std::vector<Parallelism> parallelism;  ///< how the work is shared, most exposed first
  std::optional<UnevenStage> uneven_stage;   ///< only if no rank is late
  CriticalPath critical_path;            ///< of the measured steps
  std::vector<WhatIf> what_if;           ///< step durations under changes; see find_what_if
  std::vector<WhatIf> what_if_on_top;    ///< likewise, once stragglers are like the others; empty without stragglers
  std::vector<WhatIf> what_if_less;      ///< of rules' own changes; see what_if_less()

  /// Whether a rank never arrives at a collective in which the others wait.
  [[nodiscard]] bool hangs() const { return first_hang(missing) != nullptr; }
  /// Of the rank's collective calls; null: unknown.
  [[nodiscard]] const CallTimings* timings(int rank) const {
    const auto found = call_timings.find(rank);
    return found != call_timings.end() ? &found->second : nullptr;
  }
  /// Bounded: a world of many thousands may have traces of a few ranks only.
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

/// `ranks` are in ascending order; one rank gives no stragglers and no clocks. `samples`: of the ranks' devices, if
/// any. `savings`: of rules' changes, for Job::what_if_less.
Job analyse_job(std::span<const RankDigest> ranks, const SampleLog& samples = {},
                std::span<const OwnSavings> savings = {});

}  // namespace profgpu
