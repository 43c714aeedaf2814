#include "compare/step_ratio.h"

#include <algorithm>
#include <cmath>

namespace profgpu {
namespace {

constexpr int kResamples = 4000;
constexpr double kNormalQuantile = 1.959963984540054;

// splitmix64 (Steele, Lea, Flood 2014): the same numbers with every library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  size_t below(size_t n) {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return static_cast<size_t>((static_cast<unsigned __int128>(z) * n) >> 64);
  }

 private:
  uint64_t state_;
};

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

double median_of(std::vector<double>& values) {
  const size_t n = values.size();
  const auto middle = values.begin() + static_cast<int64_t>(n / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (n % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

void resample(const std::vector<double>& from, Random& random, std::vector<double>& to) {
  to.resize(from.size());
  for (double& v : to) v = from[random.below(from.size())];
}

double quantile(std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto i = static_cast<size_t>(at);
  const double next = i + 1 < sorted.size() ? sorted[i + 1] : sorted[i];
  return sorted[i] + (at - static_cast<double>(i)) * (next - sorted[i]);
}

// The percentile interval, stretched around the value on a logarithmic scale.
Ratio with_interval(double value, std::vector<double> resampled, double stretch) {
  std::sort(resampled.begin(), resampled.end());
  const double low = quantile(resampled, 0.025), high = quantile(resampled, 0.975);
  return {value, value * std::pow(low / value, stretch), value * std::pow(high / value, stretch)};
}

double stretch_for(size_t a, size_t b) {
  const auto few = static_cast<double>(std::min(a, b));
  return student_t(few - 1) / kNormalQuantile * std::sqrt(few / (few - 1));
}

}  // namespace

// Cornish-Fisher expansion around the normal quantile (Abramowitz and Stegun 26.7.5); exact for 1 and 2.
double student_t(double df) {
  if (df <= 1) return 12.706204736432095;
  if (df <= 2) return 4.302652729696142;
  const double z = kNormalQuantile, z2 = z * z;
  const double g1 = (z2 + 1) * z / 4;
  const double g2 = ((5 * z2 + 16) * z2 + 3) * z / 96;
  const double g3 = (((3 * z2 + 19) * z2 + 17) * z2 - 15) * z / 384;
  const double g4 = ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) * z / 92160;
  return z + g1 / df + g2 / (df * df) + g3 / (df * df * df) + g4 / (df * df * df * df);
}

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
    if (needed <= static_cast<double>(kMostSteps)) r.steps_needed = static_cast<int64_t>(needed);
  }
  return r;
}

bool differs(const StepSums& before, const StepSums& after) {
  if (before.steps < 2 || after.steps < 2) return false;
  const double a = before.stddev * before.stddev / static_cast<double>(before.steps);
  const double b = after.stddev * after.stddev / static_cast<double>(after.steps);
  const double difference = std::abs(after.mean - before.mean);
  if (a + b <= 0) return difference > 0;
  const double df = (a + b) * (a + b) /
                    (a * a / static_cast<double>(before.steps - 1) + b * b / static_cast<double>(after.steps - 1));
  return difference > student_t(df) * std::sqrt(a + b);
}

}  // namespace profgpu
