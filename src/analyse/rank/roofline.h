// How near the device's work comes to what the device could do: rates, intensity and the attainable limit of operators
// and kernels on the rank's busiest device, over its measured steps.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyse/rank/work.h"
#include "analyse/report/document.h"
#include "analyse/work/device_limits.h"
#include "base/statistics.h"

namespace profgpu {

constexpr double kImpossiblePct = 105;   ///< of the peak, with rounding in tables of peaks
/// Products reach more at a clock above that of a data sheet's peaks, but no device's clock is higher than this.
constexpr double kBoostedPct = 125;

struct PeakRow {
  std::string_view precision;
  double tflops = 0;         ///< dense; 10^12 operations a second
  std::optional<double> clock_tflops = {};   ///< at the clock that samples saw; none: see Limits::clock_mhz

  void fields(auto&& v) const { v("precision", precision), v("tflops", tflops), v("clock_tflops", clock_tflops); }
};

/// Of the rank's busiest device.
struct Limits {
  std::optional<DeviceLimits> device;   ///< none: unknown
  std::string why;                      ///< then the reason
  bool measured = false;                ///< the peaks are those that were measured, or given, and no data sheet's
  bool unnamed = false;                 ///< the trace does not say what the device is
  /// Mean SM clock over the measured steps, from samples; none: no samples, or the peaks' own clock is not known.
  std::optional<double> clock_mhz = {};

  [[nodiscard]] std::string why_with_advice() const {
    if (measured) return why;
    return why + (unnamed ? ": say what it is with --gpu" : ": pass measured peaks with --peaks FILE");
  }
  /// The clock that samples saw over that of the peaks.
  [[nodiscard]] std::optional<double> clock_ratio() const {
    return clock_mhz && device && device->clock_mhz > 0 ? std::optional(*clock_mhz / device->clock_mhz) : std::nullopt;
  }
  [[nodiscard]] std::vector<PeakRow> peaks() const;
  void fields(auto&& v) const {
    v("device", device ? std::optional(device->name) : std::nullopt);
    v("source", device ? std::optional(device->source) : std::nullopt), v("reason", unless_empty(why));
    v("memory_gbps", device && device->memory_gbps > 0 ? std::optional(device->memory_gbps) : std::nullopt);
    const auto known = [](auto n) { return n > 0 ? std::optional(n) : std::nullopt; };
    v("cache_bytes", device ? known(device->cache_bytes) : std::nullopt);
    v("link_gbps", device ? known(device->link_gbps) : std::nullopt);
    v("host_link_gbps", device ? known(device->host_link_gbps) : std::nullopt);
    v("peak_clock_mhz", device ? known(device->clock_mhz) : std::nullopt), v("clock_mhz", clock_mhz);
    v("peaks", peaks());
  }
  static Limits compute(const Facts& facts);
};

enum class Bound : uint8_t {
  kUnknown,
  kCompute,   ///< computing takes longer than moving
  kMemory,    ///< moving takes longer than computing
  kLatency,   ///< too short, or short with few blocks, to reach half of either
};
std::string_view bound_name(Bound bound);

/// Calls of one operator with the same shapes and precision, or kernels of one name and precision.
struct RooflineRow {
  std::string name;
  std::optional<std::string> shapes, kernel;   ///< of operators: inputs, and the kernel that takes the most time
  Precision precision = Precision::kUnknown;
  Bound bound = Bound::kUnknown;       ///< of most of its time
  bool recomputed = false;             ///< a forward operator that runs again within the backward pass
  int64_t count = 0, total_ns = 0;     ///< device time
  std::optional<int64_t> flops, bytes; ///< of all of them: needed, and moved at least; none: unknown
  bool flops_is_lower_bound = false;   ///< some calls need at least so many
  std::optional<int64_t> limit_ns;     ///< the shortest time that the device could take; none: unknown
  std::optional<double> clock_limit_pct = {};   ///< limit_pct at the sampled clock; none: see Limits::clock_mhz

  /// FLOPs per byte.
  [[nodiscard]] std::optional<double> intensity() const;
  /// 10^12 FLOPs, and 10^9 bytes, a second.
  [[nodiscard]] std::optional<double> tflops() const;
  [[nodiscard]] std::optional<double> memory_gbps() const;
  [[nodiscard]] std::optional<double> limit_pct() const {
    return limit_ns ? std::optional(percent_of(*limit_ns, total_ns)) : std::nullopt;
  }
  void fields(auto&& v) const {
    v("name", name), v("shapes", shapes), v("kernel", kernel), v("precision", unless_empty(precision_name(precision)));
    v("count", count), v("total_ns", total_ns), v("flops", flops);
    v("flops_is_lower_bound", only_if(flops.has_value(), flops_is_lower_bound));
    v("bytes", bytes), v("intensity", intensity());
    v("tflops", tflops()), v("memory_gbps", memory_gbps()), v("limit_ns", limit_ns), v("limit_pct", limit_pct());
    v("clock_limit_pct", clock_limit_pct), v("bound", bound_name(bound)), v("recomputed", recomputed);
  }
};

struct Roofline {
  std::optional<double> known_pct;   ///< share of compute kernels' time whose limit is known; none: no kernels
  /// Time at peak rate of all products over wall time, without and with recomputation; see docs/roofline.md.
  std::optional<double> mfu_pct, hfu_pct;
  /// Share of compute kernels' time that may hold FLOPs beyond those that are counted: kernels that are products by
  /// name, or of no known kind, whose FLOPs are unknown or at least so many.
  double uncounted_pct = 0;
  std::optional<double> clock_mfu_pct = {};   ///< mfu_pct of what the clock that samples saw allows
  std::optional<double> mbu_pct;     ///< of an engine's decode steps: bytes over what the memory moves in their time
  bool mbu_is_lower_bound = false;   ///< bytes of more than 1 % of these steps' kernel time are not known
  std::vector<std::string> missing;  ///< what keeps figures from being known, with what to do
  std::vector<RooflineRow> ops, kernels;   ///< most time first
  /// Of known_pct: figures for a run of which more is unknown would mislead.
  static constexpr double kMinKnownPct = 70;
  static constexpr double kCountedPct = 1;   ///< of uncounted_pct: less changes no figure that is shown

  /// mfu_pct and hfu_pct are the least that they can be.
  [[nodiscard]] bool mfu_is_lower_bound() const { return uncounted_pct > kCountedPct; }
  void fields(auto&& v) const {
    v("known_pct", known_pct), v("mfu_pct", mfu_pct), v("hfu_pct", hfu_pct), v("mbu_pct", mbu_pct);
    v("mbu_is_lower_bound", only_if(mbu_pct.has_value(), mbu_is_lower_bound));
    v("clock_mfu_pct", clock_mfu_pct), v("mfu_is_lower_bound", only_if(mfu_pct.has_value(), mfu_is_lower_bound()));
    v("missing", missing), v("ops", ops), v("kernels", kernels);
  }
  static Roofline compute(const Facts& facts);
};

/// Time of products at the peak rates of their precisions, without and with recomputation.
struct PeakTime {
  double model_ns = 0, all_ns = 0;
  double flops = 0, unrated_flops = 0;           ///< needed; the second: of precisions whose rate is not known
  Precision unrated = Precision::kUnknown;       ///< the last of these

  /// The rates of nearly all products are known.
  [[nodiscard]] bool complete() const { return unrated_flops <= 0.01 * flops; }
  void add(const OpWork& work, const DeviceLimits& limits, bool recomputed);
};

/// Whether a kernel may have FLOPs beyond those that are counted of it: a product by name, or of no known kind, whose
/// FLOPs are unknown or at least so many.
bool may_hold_more_flops(const Facts& facts, ActivityId a);

/// Each run of an operator (DeviceWork::runs) beside the limits of its device. Only of the busiest device.
struct RunLimits {
  std::vector<double> least_ns;      ///< by run; negative: unknown
  std::vector<double> achievable_ns; ///< by run: the same at what products reach at most; see DeviceLimits
  std::vector<Bound> bound;          ///< by run
  std::vector<bool> recomputed;      ///< by run: a forward operator within the backward pass
  /// By run: faster than its FLOPs allow. It computes less than its shapes say, as with masks and windows, or in
  /// another precision, or the peaks are too low: its limit is unknown.
  std::vector<bool> impossible;
  std::vector<bool> boosted;         ///< by run: a product above the data sheet's rate, as a higher clock allows
  /// By activity: it does its run's work. Others, such as transposes and sums of parts, only serve those that do.
  std::vector<bool> works;
  std::vector<bool> for_weights;     ///< by activity: it computes the gradient of a convolution's weights
  std::vector<int64_t> main_ns;      ///< by run: how long the kernels that do its work take
  /// By run: of main_ns, the kernels of the weights' gradient, which is half of the work. 0: time tells each's part.
  std::vector<int64_t> weights_ns;

  /// The part of its run's work that an activity does; 0 where there is no run.
  [[nodiscard]] double share_of_run(const Trace& trace, const DeviceWork& work, ActivityId a) const {
    const int64_t whole_ns = time_of_whole(work.run_of[a.value], a);
    return whole_ns > 0 ? static_cast<double>(trace.activity.duration_ns[a.value]) / static_cast<double>(whole_ns) : 0;
  }
  /// The part of an activity's time that its run needs at the limit, 0 to 1; none: unknown.
  [[nodiscard]] std::optional<double> needed_part(const DeviceWork& work, ActivityId a) const {
    return part_of_time(least_ns, work, a);
  }
  /// Likewise, at what products reach at most.
  [[nodiscard]] std::optional<double> achievable_part(const DeviceWork& work, ActivityId a) const {
    const std::optional<double> needed = needed_part(work, a);
    return needed.value_or(0) > 0 ? part_of_time(achievable_ns, work, a) : needed;
  }
  static RunLimits compute(const Facts& facts);

 private:
  /// How long all of a run's work would take at the pace of one of its kernels; 0: this one does none of it.
  [[nodiscard]] int64_t time_of_whole(uint32_t run, ActivityId a) const {
    if (run == DeviceWork::kNone || !works[a.value]) return 0;
    if (weights_ns[run] == 0) return main_ns[run];
    return 2 * (for_weights[a.value] ? weights_ns[run] : main_ns[run] - weights_ns[run]);
  }
  [[nodiscard]] std::optional<double> part_of_time(const std::vector<double>& ns, const DeviceWork& work,
                                                   ActivityId a) const {
    const uint32_t run = work.run_of[a.value];
    if (run == DeviceWork::kNone || least_ns[run] < 0 || main_ns[run] <= 0) return std::nullopt;
    const int64_t whole_ns = time_of_whole(run, a);
    return whole_ns > 0 ? std::min(1.0, ns[run] / static_cast<double>(whole_ns)) : 0;
  }
};

}  // namespace profgpu
