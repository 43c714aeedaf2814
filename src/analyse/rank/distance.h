// How far the measured steps are from what the device could do, added up: from the least time for their work to their
// wall time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyse/rank/roofline.h"
#include "analyse/report/document.h"

namespace profgpu {

/// Of `products`, what a clock below that of the peaks takes at most; only where samples saw the clock.
constexpr std::string_view kReducedClock = "reduced_clock";

struct DistancePart {
  std::string name;          ///< see Distance::parts
  int64_t total_ns = 0;      ///< over the measured steps
  double wall_pct = 0;       ///< of their wall time

  void fields(auto&& v) const { v("part", name), v("total_ns", total_ns), v("wall_pct", wall_pct); }
};

struct Distance {
  int64_t steps = 0, wall_ns = 0;        ///< MeasuredSteps::known_wall_ns()
  /// The rest of the steps: the trace does not show what the device does, or it has no requests.
  int64_t left_out_ns = 0;
  /// The least time for their work: at the limit where that is known; kernels of unknown work as they are. None where
  /// nothing is known.
  std::optional<int64_t> limit_ns;
  std::optional<double> times_limit;     ///< wall time over limit_ns
  /// Kernels of unknown work, which count as if they could not be faster, are more than kKnownPct of limit_ns.
  bool times_limit_is_lower_bound = false;
  static constexpr double kKnownPct = 1;
  std::optional<double> known_pct;       ///< share of compute kernels' time whose limit is known
  /// On the busiest device, in this order: necessary_work (at the limit), products (compute-bound kernels, over that),
  /// memory_bound (kernels over the time that their bytes take), small_kernels (bound by latency, likewise),
  /// recomputation, unknown_work, exposed_communication, exposed_copies, "idle: CAUSE" for each, outside (before the
  /// device's first activity or after its last). Adds up to wall_ns exactly. Parts without time are left out.
  std::vector<DistancePart> parts;

  /// Whether the figures are good enough for a first screen.
  [[nodiscard]] bool is_known() const { return times_limit && known_pct.value_or(0) >= Roofline::kMinKnownPct; }
  [[nodiscard]] int64_t steps_ns() const { return wall_ns + left_out_ns; }
  void fields(auto&& v) const {
    v("steps", steps), v("wall_ns", wall_ns), v("left_out_ns", left_out_ns), v("limit_ns", limit_ns);
    v("times_limit", times_limit);
    v("times_limit_is_lower_bound", only_if(times_limit.has_value(), times_limit_is_lower_bound));
    v("known_pct", known_pct), v("parts", parts);
  }
  static Distance compute(const Facts& facts);
};

/// By activity: its part of the measured steps' time on the busiest device. Where compute overlaps, an instant belongs
/// to the kernel that started first, so that all of them together are the device's compute time. 0: other activities.
struct ExclusiveTime {
  std::vector<int64_t> ns;
  static ExclusiveTime compute(const Facts& facts);
};

}  // namespace profgpu
