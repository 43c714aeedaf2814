// What a device reaches of its kind's documented rates.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "analyse/report/quantity.h"
#include "analyse/work/device_limits.h"
#include "measure/result/bench_result.h"

namespace profgpu {
namespace {

// Shares of documented rates below which a whole device is at fault, not the library: large products of healthy devices
// reach more than half, and memory more than three quarters.
constexpr double kLeastProducts_pct = 50, kLeastMemory_pct = 70;
constexpr int64_t kLargeProduct = 4096;
constexpr Precision kJudged[] = {Precision::kFp64, Precision::kFp32, Precision::kTf32, Precision::kBf16,
                                 Precision::kFp16};

struct BestRates {
  std::array<double, kPrecisions> tera{};
  double memory_gbps = 0;
};

BestRates best_rates(const BenchResult& result, int64_t device) {
  BestRates best;
  for (const Figure& f : result.figures) {
    if (f.device != device || !f.used_by.empty()) continue;
    if (f.name.starts_with("device_memory_") && f.name != "device_memory_write")
      best.memory_gbps = std::max(best.memory_gbps, f.value);
    if (f.size.value_or(0) < kLargeProduct) continue;
    for (const Precision p : kJudged)
      if (double& rate = best.tera[static_cast<size_t>(p)]; f.precision == precision_name(p))
        rate = std::max(rate, f.value);
  }
  return best;
}

}  // namespace

std::vector<std::string> devices_below_their_kind(const BenchResult& result) {
  std::vector<std::string> all;
  if (result.simulated) return all;
  for (const MeasuredDevice& d : result.devices) {
    const FoundLimits known = find_limits({d.name, d.memory_bytes, static_cast<int32_t>(d.multiprocessors)});
    // Locked clocks are below those that the rates are documented for.
    if (!known.limits || std::ranges::count(result.clocks_locked, d.index) > 0) continue;
    const BestRates best = best_rates(result, d.index);
    const auto judge = [&](std::string_view what, double is, double documented, double least_pct,
                           std::string_view unit) {
      if (is <= 0 || documented <= 0 || 100 * is / documented >= least_pct) return;
      all.push_back(fmt::format("GPU {}: {} {}, {} of the {} that are documented for {}", d.index, what,
                                format_measured(is, unit), format_percent(100 * is / documented, 0),
                                format_measured(documented, unit), known.limits->name));
    };
    for (const Precision p : kJudged) {
      const auto at = static_cast<size_t>(p);
      judge(precision_name(p), best.tera[at], known.limits->tera[at], kLeastProducts_pct, "TFLOP/s");
    }
    judge("device memory", best.memory_gbps, known.limits->memory_gbps, kLeastMemory_pct, "GB/s");
  }
  return all;
}

}  // namespace profgpu
