// WorkPerStep: FLOPs and bytes of a mean measured step, of a token and of a sample.
#pragma once

#include <optional>

#include "analyse/rank/facts.h"
#include "analyse/report/document.h"

namespace profgpu {

/// On the busiest device, without communication. Sums are of the kernels whose work is known.
struct WorkPerStep {
  double flops_known_pct = 0, bytes_known_pct = 0;   ///< of those kernels' time
  std::optional<double> flops, bytes;        ///< needed; none: no step, or less than kMinKnownPct of the time is known
  bool flops_is_lower_bound = false;         ///< Roofline::mfu_is_lower_bound()
  bool bytes_is_lower_bound = false;         ///< those of more than kCountedPct of the time are not known
  std::optional<double> model_flops;         ///< of that, without recomputation
  std::optional<double> flops_per_token, bytes_per_token, flops_per_sample, bytes_per_sample;
  static constexpr double kMinKnownPct = 70;
  static constexpr double kCountedPct = 1;   ///< unknown: less changes no figure that is shown

  void fields(auto&& v) const {
    v("flops_known_pct", flops_known_pct), v("bytes_known_pct", bytes_known_pct), v("flops", flops);
    v("flops_is_lower_bound", only_if(flops.has_value(), flops_is_lower_bound));
    v("bytes", bytes), v("bytes_is_lower_bound", only_if(bytes.has_value(), bytes_is_lower_bound));
    v("flops_per_token", flops_per_token), v("bytes_per_token", bytes_per_token);
    v("flops_per_sample", flops_per_sample), v("bytes_per_sample", bytes_per_sample);
  }
  static WorkPerStep compute(const Facts& facts);
};

}  // namespace profgpu
