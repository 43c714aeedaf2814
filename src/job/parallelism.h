// How a job shares its work, as its collectives show it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "job/group_claims.h"
#include "job/pipeline.h"
#include "job/shared_work.h"
#include "report/document.h"

namespace profgpu {

/// Calls of one kind, a step and rank.
struct CollectiveUse {
  CollectiveOp op = CollectiveOp::kUnknown;
  double forward = 0, backward = 0, other = 0;
  std::optional<int64_t> bytes;   ///< none where the size of any is unknown

  template <class V>
  void fields(V&& v) const {
    v("name", collective_op_name(op)), v("forward_calls_per_step", forward), v("backward_calls_per_step", backward);
    v("other_calls_per_step", other), v("bytes_per_step", bytes);
  }
};

/// One way to share the work, over groups of one size. Figures of a step are means over measured steps and ranks.
struct Parallelism {
  ParallelKind kind = ParallelKind::kUnknown;
  bool named = false;               ///< names of groups, ranges or kernels say it; else the pattern of calls alone
  int64_t group_size = 0;           ///< 0: unknown
  int64_t groups = 0;               ///< with a rank in hand
  std::vector<int> ranks;           ///< in hand, ascending
  std::optional<int64_t> hosts_per_group;   ///< most hosts that ranks in hand of one group are on
  std::optional<int64_t> replicas;  ///< of kHsdp: size of the second group
  CallCounts counts;                ///< over measured steps of all ranks
  double calls_per_step = 0;
  std::optional<int64_t> bytes_per_step;    ///< none where the size of any call is unknown
  std::optional<double> bytes_spread_pct;   ///< of ranks: 100 (most - least) / mean
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

  /// Its figures, as far as its kind has them.
  struct Detail {
    const Parallelism& way;

    template <class V>
    void fields(V&& v) const {
      v("told_by", way.named ? "names" : "pattern"), v("ranks", way.ranks.size());
      v("hosts_per_group", way.hosts_per_group), v("collectives", way.collectives());
      if (way.replicas) v("replica_group_size", way.replicas);
      if (way.gradients) way.gradients->fields(v);
      if (way.gathers) way.gathers->fields(v);
      if (way.pipeline) way.pipeline->fields(v);
      if (way.exchanges()) v("bytes_spread_pct", way.bytes_spread_pct);
    }
  };

  template <class V>
  void fields(V&& v) const {
    v("kind", parallel_kind_name(kind)), v("words", words()), v("group_size", only_if(group_size > 0, group_size));
    v("groups", groups), v("calls_per_step", calls_per_step), v("bytes_per_step", bytes_per_step);
    v("communication_ns_per_step", communication_ns_per_step), v("exposed_ns_per_step", exposed_ns_per_step);
    v("overlap_pct", overlap_pct()), v("detail", Detail{*this});
  }
};

/// Most exposed first. One rank gives what its calls suggest; ranks without collectives give nothing.
/// O(calls log calls).
std::vector<Parallelism> parallelism_of(std::span<const RankDigest> ranks);

/// Of one rank alone.
struct RankParallelism {
  std::vector<Parallelism> ways;
  static RankParallelism compute(const Facts& facts);
};

}  // namespace profgpu
