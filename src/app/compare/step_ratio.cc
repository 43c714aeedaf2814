#include "app/compare/step_ratio.h"

#include <algorithm>
#include <cmath>

#include "base/hash.h"
#include "base/statistics.h"

namespace profgpu {
namespace {

constexpr int kResamples = 4000;

// splitmix64: the same numbers with every library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  size_t below(size_t n) {
    return static_cast<size_t>((static_cast<unsigned __int128>(mixed_bits(state_ += kGoldenRatio)) * n) >> 64);
  }

 private:
  uint64_t state_;
};

void resample(const std::vector<double>& from, Random& random, std::vector<double>& to) {
  to.resize(from.size());
  for (double& v : to) v = from[random.below(from.size())];
}

// The percentile interval, stretched around the value on a logarithmic scale.
Ratio with_interval(double value, std::vector<double> resampled, double stretch) {
  std::sort(resampled.begin(), resampled.end());
  const double low = percentile_of_sorted(resampled, 2.5), high = percentile_of_sorted(resampled, 97.5);
  return {value, value * std::pow(low / value, stretch), value * std::pow(high / value, stretch)};
}

double stretch_for(size_t a, size_t b) {
  const auto few = static_cast<double>(std::min(a, b));
  return student_t(few - 1) / kNormalQuantile * std::sqrt(few / (few - 1));
}

}  // namespace

StepRatio step_ratio(const std::vector<int64_t>& before_ns, const std::vector<int64_t>& after_ns) {
  std::vector<double> a(before_ns.begin(), before_ns.end()), b(after_ns.begin(), after_ns.end());
  // In order of size, so that the order of steps changes nothing.
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  StepRatio r;
  std::vector<double> a2 = a, b2 = b;
  r.mean.value = mean_of(b) / mean_of(a);
  r.median.value = median_of(b2) / median_of(a2);
  if (a.size() < 2 || b.size() < 2) return r;
  Random random(0x70726f66677075);
  std::vector<double> means, medians;
  for (int i = 0; i < kResamples; ++i) {
    resample(a, random, a2);
    resample(b, random, b2);
    means.push_back(mean_of(b2) / mean_of(a2));
    medians.push_back(median_of(b2) / median_of(a2));
  }
  const double stretch = stretch_for(a.size(), b.size());
  r.mean = with_interval(r.mean.value, std::move(means), stretch);
  r.median = with_interval(r.median.value, std::move(medians), stretch);
  if (*r.mean.high < 1) r.change = Change::kFaster;
  if (*r.mean.low > 1) r.change = Change::kSlower;
  const double half = std::max(r.mean.value - *r.mean.low, *r.mean.high - r.mean.value);
  const double seen = std::abs(r.mean.value - 1);
  r.resolution_pct = 100 * half;
  if (r.change == Change::kNone && seen > 0) {
    const double times = half / seen;
    const double needed = std::ceil(static_cast<double>(std::max(a.size(), b.size())) * times * times);
    if (needed <= static_cast<double>(kMaxSteps)) r.steps_needed = static_cast<int64_t>(needed);
  }
  return r;
}

}  // namespace profgpu
