// Cost and overlap of one rank's calls of one kind of parallelism.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analyse/job/group_use.h"
#include "analyse/report/document.h"

namespace profgpu {

/// Reductions of gradients ("buckets") of one rank over its measured steps.
struct GradientUse {
  double per_step = 0;
  std::optional<int64_t> smallest_bytes, median_bytes, largest_bytes;
  /// From the start of the backward pass that launches a step's first bucket to that bucket's start; median over steps.
  std::optional<int64_t> first_delay_ns;
  /// Exposed time of a step's last bucket, and of those directly before it; median over steps.
  int64_t tail_ns = 0;
  double backward_per_step = 0;           ///< launched during backward
  double micro_batches_per_step = 0;      ///< backward passes; 0: not seen
  double reduced_passes_per_step = 0;     ///< backward passes that reduce something
  int64_t steps_without = 0;              ///< measured steps with no reduction

  void fields(auto&& v) const {
    v("buckets_per_step", per_step), v("smallest_bucket_bytes", smallest_bytes), v("median_bucket_bytes", median_bytes);
    v("largest_bucket_bytes", largest_bytes), v("first_bucket_delay_ns", first_delay_ns),
        v("last_bucket_tail_ns", tail_ns);
    v("micro_batches_per_step", only_if(micro_batches_per_step > 0, micro_batches_per_step));
    v("reduced_micro_batches_per_step", only_if(micro_batches_per_step > 0, reduced_passes_per_step));
    v("steps_without_reduction", steps_without);
  }
};

/// All-gathers of parameters of one rank over its measured steps. A step's first one cannot overlap and is never late.
struct GatherUse {
  double per_step = 0, backward_per_step = 0;
  double late_per_step = 0;               ///< that begin without compute beside them
  double late_ns_per_step = 0;            ///< of those, until compute runs beside them, or to their ends

  void fields(auto&& v) const {
    v("gathers_per_step", per_step), v("gathered_again_in_backward", backward_per_step > 0);
    v("late_gathers_per_step", late_per_step), v("late_gathers_ns_per_step", static_cast<int64_t>(late_ns_per_step));
  }
};

struct SharedWork {
  uint32_t rank = 0;                      ///< index in the list of ranks
  CallCounts counts;                      ///< over measured steps
  int64_t steps = 0;                      ///< measured, at least 1
  double communication_ns_per_step = 0;   ///< union of its kernels
  double exposed_ns_per_step = 0;         ///< of that, with no compute beside it
  std::optional<GradientUse> gradients;
  std::optional<GatherUse> gathers;
};

/// `calls` are in program order; those outside measured steps do not count. `shards`: they share parameters or
/// gradients of data-parallel ranks, so that gradients and gathers are evaluated.
SharedWork shared_work(const RankDigest& rank, const std::vector<uint32_t>& calls, bool shards);

}  // namespace profgpu
