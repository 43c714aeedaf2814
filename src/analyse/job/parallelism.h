// How a job parallelizes its work, from its collectives.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "analyse/job/group_use.h"
#include "analyse/job/shared_work.h"
#include "analyse/report/document.h"

namespace profgpu {

// Who sends to whom: pipelines and their stages, and rings.

/// One rank's sends and receives within one group, in measured steps.
struct PairUse {
  int32_t own = -1;                     ///< number in the group; -1: unknown
  std::map<int32_t, int64_t> sends, receives;           ///< by peer's number in the group; -1: unknown
  std::array<int64_t, kStepParts> sent{}, received{};   ///< by part of the step
};
/// By rank's index, then group.
using PairUses = std::vector<std::map<uint32_t, PairUse>>;
PairUses pair_uses(std::span<const RankDigest> ranks, const GroupUses& uses);

/// Groups whose ranks all receive from one neighbor and send to another, in a ring: ring attention. In a pipeline
/// gradients return the way that activations came.
std::set<uint32_t> rings(const GroupUses& uses, const PairUses& pairs);

struct Stage {
  int64_t stage = 0;                ///< from 0
  std::vector<int> ranks;           ///< with a trace here, ascending
  int64_t bubble_ns_per_step = 0;   ///< mean over its ranks: the device only runs sends and receives
  double bubble_pct = 0;            ///< of the mean step
  int64_t compute_ns_per_step = 0;  ///< mean over its ranks
  std::optional<int64_t> peak_allocated_bytes;   ///< the largest of its ranks

  void fields(auto&& v) const {
    v("stage", stage), v("ranks", ranks), v("bubble_ns_per_step", bubble_ns_per_step), v("bubble_pct", bubble_pct);
    v("compute_ns_per_step", compute_ns_per_step), v("peak_allocated_bytes", peak_allocated_bytes);
  }
};

struct Pipeline {
  std::optional<int64_t> stages;
  /// Sends per step to one neighbor; in interleaved schedules, times the model chunks.
  std::optional<double> micro_batches;
  /// Bubble of (p - 1) / (m + p - 1) among forward and backward passes, as a share of the step.
  std::optional<double> ideal_bubble_pct;
  double bubble_pct = 0;                   ///< mean over ranks
  /// Of the ideal bubble, what it would be shorter by with four micro-batches per stage; 0: there are as many.
  int64_t avoidable_ns_per_step = 0;
  std::vector<Stage> by_stage;             ///< empty: stages are unknown

  void fields(auto&& v) const {
    v("stages", stages), v("micro_batches_per_step", micro_batches), v("bubble_pct", bubble_pct);
    v("ideal_bubble_pct", ideal_bubble_pct), v("by_stage", by_stage);
  }
};

/// `groups`: with whether names say that the group is one pipeline. `alone_ns`: by rank's index, time per step in which
/// only sends and receives run; only for ranks of the pipeline.
Pipeline pipeline_of(std::span<const RankDigest> ranks, const GroupUses& uses, const PairUses& pairs,
                     const std::map<uint32_t, bool>& groups, const std::map<uint32_t, int64_t>& alone_ns);

/// Calls of one operation, per step and rank.
struct CollectiveUse {
  CollectiveOp op = CollectiveOp::kUnknown;
  double forward = 0, backward = 0, other = 0;
  std::optional<int64_t> bytes;   ///< none: the size of some calls is unknown

  void fields(auto&& v) const {
    v("name", collective_op_name(op)), v("forward_calls_per_step", forward), v("backward_calls_per_step", backward);
    v("other_calls_per_step", other), v("bytes_per_step", bytes);
  }
};

std::string_view parallel_kind_name(ParallelKind kind);

/// One kind of parallelism, over groups of one size. Figures per step are means over measured steps and ranks.
struct Parallelism {
  ParallelKind kind = ParallelKind::kUnknown;
  bool named = false;               ///< from names of groups, ranges or kernels; else from the pattern of calls
  int64_t group_size = 0;           ///< 0: unknown
  int64_t groups = 0;               ///< with a rank here
  std::vector<int> ranks;           ///< with a trace here, ascending
  std::optional<int64_t> hosts_per_group;   ///< largest number of hosts of a group's ranks
  std::optional<int64_t> replicas;  ///< of kHsdp: size of the second group
  CallCounts counts;                ///< over measured steps of all ranks
  double calls_per_step = 0;
  std::optional<int64_t> bytes_per_step;    ///< none: the size of some calls is unknown
  std::optional<double> bytes_spread_pct;   ///< over ranks: 100 (most - least) / mean
  int64_t communication_ns_per_step = 0, exposed_ns_per_step = 0;
  std::optional<GradientUse> gradients;     ///< delays and tails: medians over ranks
  std::optional<GatherUse> gathers;
  std::optional<Pipeline> pipeline;
  int64_t rank_steps = 0;           ///< measured steps of all ranks

  [[nodiscard]] std::optional<double> overlap_pct() const;
  [[nodiscard]] double per_step(CollectiveOp op, StepPart part) const;
  [[nodiscard]] bool exchanges() const { return counts.of(CollectiveOp::kAllToAll).calls > 0; }
  [[nodiscard]] std::vector<CollectiveUse> collectives() const;
  /// "FSDP: parameters all-gathered before use, gradients reduce-scattered"
  [[nodiscard]] std::string words() const;

  /// The figures of its kind.
  struct Detail {
    const Parallelism& way;

    void fields(auto&& v) const {
      v("told_by", way.named ? "names" : "pattern"), v("ranks", way.ranks.size());
      v("hosts_per_group", way.hosts_per_group), v("collectives", way.collectives());
      if (way.replicas) v("replica_group_size", way.replicas);
      if (way.gradients) way.gradients->fields(v);
      if (way.gathers) way.gathers->fields(v);
      if (way.pipeline) way.pipeline->fields(v);
      if (way.exchanges()) v("bytes_spread_pct", way.bytes_spread_pct);
    }
  };

  void fields(auto&& v) const {
    v("kind", parallel_kind_name(kind)), v("words", words()), v("group_size", only_if(group_size > 0, group_size));
    v("groups", groups), v("calls_per_step", calls_per_step), v("bytes_per_step", bytes_per_step);
    v("communication_ns_per_step", communication_ns_per_step), v("exposed_ns_per_step", exposed_ns_per_step);
    v("overlap_pct", overlap_pct()), v("detail", Detail{*this});
  }
};

/// Most exposed first. A single rank's calls only suggest the kind; ranks without collectives give nothing. O(calls log
/// calls).
std::vector<Parallelism> parallelism_of(std::span<const RankDigest> ranks);

/// From one rank alone.
struct RankParallelism {
  std::vector<Parallelism> ways;
  static RankParallelism compute(const Facts& facts);
};

}  // namespace profgpu
