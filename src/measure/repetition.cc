#include "measure/repetition.h"

#include <algorithm>
#include <cmath>

#include "base/statistics.h"

namespace profgpu {
namespace {

constexpr double kRun_ns = 2e6;        // events count half microseconds: 0.03 % of it
constexpr int64_t kMaxCalls = 10'000, kMaxRuns = 2000;
constexpr int kMinWarmUp = 2, kMaxWarmUp = 20;
constexpr double kWarm = 0.03;         // two calls in a row that differ by less

}  // namespace

Timing timing_of(std::vector<double> runs_ns) {
  std::ranges::sort(runs_ns);
  Timing t;
  t.median_ns = percentile_of_sorted(runs_ns, 50), t.best_ns = runs_ns.front();
  t.runs = static_cast<int64_t>(runs_ns.size());
  if (t.median_ns > 0)
    t.spread_pct = 100 * (percentile_of_sorted(runs_ns, 75) - percentile_of_sorted(runs_ns, 25)) / t.median_ns;
  t.outliers = std::ranges::count_if(runs_ns, [&](double ns) { return ns > 1.5 * t.median_ns; });
  return t;
}

Result<Timing> repeat(const TimedRun& run, int64_t budget_ns, const std::function<int64_t()>& now_ns) {
  const int64_t begin_ns = now_ns();
  double one_ns = 0;
  for (int i = 0; i < kMaxWarmUp; ++i) {
    const auto took = run(1);
    if (!took) return took.error();
    const double before_ns = std::exchange(one_ns, *took);
    if (i >= kMinWarmUp && std::abs(one_ns - before_ns) <= kWarm * before_ns) break;
    if (i >= kMinWarmUp && now_ns() - begin_ns > budget_ns / 4) break;
  }
  const double run_ns = std::min(kRun_ns, static_cast<double>(budget_ns) / (2.0 * kMinRuns));
  const auto calls = static_cast<int64_t>(std::clamp(run_ns / std::max(one_ns, 1.0), 1.0, double{kMaxCalls}));
  std::vector<double> runs_ns;
  for (;;) {
    const auto took = run(calls);
    if (!took) return took.error();
    runs_ns.push_back(*took / static_cast<double>(calls));
    const auto runs = static_cast<int64_t>(runs_ns.size());
    if (runs < kMinRuns) continue;
    if (runs >= kMaxRuns || now_ns() - begin_ns >= budget_ns) break;
    if (runs % kMinRuns == 0 && timing_of(runs_ns).spread_pct <= kSteady_pct) break;
  }
  return timing_of(std::move(runs_ns));
}

}  // namespace profgpu
