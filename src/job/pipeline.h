// Who sends to whom: pipelines and their stages, and rings.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "job/group_use.h"
#include "report/document.h"

namespace profgpu {

/// What one rank sends and receives within one group, in measured steps. By peer, as the group numbers it; -1: unknown.
struct PairUse {
  int32_t own = -1;                     ///< place in the group; -1: unknown
  std::map<int32_t, int64_t> sends, receives;
  std::array<int64_t, kStepParts> sent{}, received{};   ///< by part of the step
};
/// By rank's place, then group.
using PairUses = std::vector<std::map<uint32_t, PairUse>>;
PairUses pair_uses(std::span<const RankDigest> ranks, const GroupUses& uses);

/// Groups whose ranks all hand on to one neighbour what they get from another, the last to the first: ring attention.
/// In a pipeline gradients come back the way that activations went.
std::set<uint32_t> rings(const GroupUses& uses, const PairUses& pairs);

struct Stage {
  int64_t stage = 0;                ///< from 0
  std::vector<int> ranks;           ///< in hand, ascending
  int64_t bubble_ns_per_step = 0;   ///< mean over its ranks: the device runs sends and receives and nothing else
  double bubble_pct = 0;            ///< of the mean step
  std::optional<int64_t> peak_allocated_bytes;   ///< the largest of its ranks

  template <class V>
  void fields(V&& v) const {
    v("stage", stage), v("ranks", ranks), v("bubble_ns_per_step", bubble_ns_per_step), v("bubble_pct", bubble_pct);
    v("peak_allocated_bytes", peak_allocated_bytes);
  }
};

struct Pipeline {
  std::optional<int64_t> stages;
  /// Sends of a rank to one neighbour a step; times its model chunks where schedules interleave them.
  std::optional<double> micro_batches;
  /// Of a step whose passes take what they take with (p - 1) / (m + p - 1) of bubble among them, the rest as it is.
  std::optional<double> ideal_bubble_pct;
  double bubble_pct = 0;                   ///< mean over ranks
  std::vector<Stage> by_stage;             ///< where stages are known

  template <class V>
  void fields(V&& v) const {
    v("stages", stages), v("micro_batches_per_step", micro_batches), v("bubble_pct", bubble_pct);
    v("ideal_bubble_pct", ideal_bubble_pct), v("by_stage", by_stage);
  }
};

/// Of the groups given, and whether names say that each is one pipeline. `alone_ns`: by rank's place, time a step in
/// which sends and receives run and nothing else; ranks that are not of the pipeline have none.
Pipeline pipeline_of(std::span<const RankDigest> ranks, const GroupUses& uses, const PairUses& pairs,
                     const std::map<uint32_t, bool>& groups, const std::map<uint32_t, int64_t>& alone_ns);

}  // namespace profgpu
