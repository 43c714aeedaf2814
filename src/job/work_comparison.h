// Why a rank is late: its steps beside those of ranks that do the same.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "job/lateness.h"
#include "job/sampled_clocks.h"

namespace profgpu {

/// One quantity of a late rank's steps beside the same steps of the others. The unit is in the metric's name.
struct SideBySide {
  std::string metric;
  std::optional<double> late, others_median;

  template <class V>
  void fields(V&& v) const {
    v("metric", metric), v("late", late), v("others_median", others_median);
  }
};

struct WorkComparison {
  /// slow_compute, low_clocks, slow_input, uneven_work, slow_host, checkpoint, memory_allocation; late: none of these
  /// explains it.
  std::string kind = "late";
  std::vector<SideBySide> side_by_side;   ///< means over the steps in question
  std::vector<std::string> evidence;      ///< short texts
};

struct LateSteps {
  uint32_t rank = 0;               ///< place in the list of ranks
  std::vector<int64_t> numbers;    ///< of its steps in which it is late, ascending
  double excess_ns = 0;            ///< waiting for it in such a step
};

/// `peers`: places of ranks that met it and are not late. A device's time in a step is compute, exposed copies, exposed
/// communication and idleness by cause; the kind is that of the part which is longest beyond the peers' median, if it
/// makes up a third of the excess. Compute is the same work slower if the kernels are the same, or if those that both
/// have explain half of the difference by being slower; else it is other work. Other work is only said to be uneven where
/// the peers do the same as each other, or where every rank's work changes from step to step: stages of a pipeline differ
/// by design.
WorkComparison compare_work(std::span<const RankDigest> ranks, const LateSteps& late, std::span<const uint32_t> peers,
                            std::span<const std::optional<SampledClock>> clocks);

}  // namespace profgpu
