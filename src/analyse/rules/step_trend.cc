#include "analyse/rules/step_trend.h"

#include <algorithm>
#include <array>

#include "base/statistics.h"

namespace profgpu {
namespace {

constexpr size_t kMinTrendSteps = 16;
constexpr size_t kMaxCompared = 512;   // of longer runs, steps at equal distances: all pairs are compared
constexpr double kMinTau = 0.6;     // of 16 steps without a trend, fewer than one run in a thousand has that
constexpr double kMinGrowth = 1.5;
constexpr double kMaxJump = 0.8;    // of the growth, from one quarter to the next: more is another level, not a trend

struct Sampled {
  std::vector<int64_t> durations_ns;
  double stride = 1;   // steps between two of them
};

Sampled sample_of(const std::vector<int64_t>& all) {
  Sampled out;
  const size_t count = std::min(all.size(), kMaxCompared);
  out.stride = static_cast<double>(all.size()) / static_cast<double>(count);
  for (size_t i = 0; i < count; ++i)
    out.durations_ns.push_back(all[static_cast<size_t>(static_cast<double>(i) * out.stride)]);
  return out;
}

std::array<int64_t, 4> medians_by_quarter(const std::vector<int64_t>& durations_ns) {
  std::array<int64_t, 4> medians{};
  for (size_t q = 0; q < medians.size(); ++q) {
    const auto at = [&](size_t quarter) {
      return durations_ns.begin() + static_cast<ptrdiff_t>(quarter * durations_ns.size() / 4);
    };
    medians[q] = lower_median(std::vector(at(q), at(q + 1)));
  }
  return medians;
}

}  // namespace

std::optional<StepTrend> step_trend(const std::vector<int64_t>& durations_ns) {
  if (durations_ns.size() < kMinTrendSteps) return std::nullopt;
  const std::array<int64_t, 4> quarters = medians_by_quarter(durations_ns);
  StepTrend out;
  out.first_ns = quarters.front(), out.last_ns = quarters.back();
  if (static_cast<double>(out.last_ns) < kMinGrowth * static_cast<double>(out.first_ns)) return std::nullopt;
  for (size_t q = 1; q < quarters.size(); ++q)
    if (static_cast<double>(quarters[q] - quarters[q - 1]) > kMaxJump * static_cast<double>(out.last_ns - out.first_ns))
      return std::nullopt;
  const Sampled steps = sample_of(durations_ns);
  int64_t concordant = 0;
  std::vector<double> slopes;
  for (size_t j = 1; j < steps.durations_ns.size(); ++j)
    for (size_t i = 0; i < j; ++i) {
      const int64_t more = steps.durations_ns[j] - steps.durations_ns[i];
      concordant += more > 0 ? 1 : more < 0 ? -1 : 0;
      slopes.push_back(static_cast<double>(more) / (static_cast<double>(j - i) * steps.stride));
    }
  if (static_cast<double>(concordant) < kMinTau * static_cast<double>(slopes.size())) return std::nullopt;
  out.slope_ns = median_of(slopes);
  return out;
}

}  // namespace profgpu
