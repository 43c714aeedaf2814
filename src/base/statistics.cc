#include "base/statistics.h"

#include <algorithm>
#include <cmath>

namespace profgpu {

std::optional<double> percentile(std::vector<int64_t> values, double q) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  return percentile_of_sorted(values, q);
}

double median_of(std::vector<double>& values) {
  const size_t n = values.size();
  const auto middle = values.begin() + static_cast<int64_t>(n / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (n % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

double standard_deviation(const std::vector<int64_t>& values) {
  if (values.size() < 2) return 0;
  const auto n = static_cast<double>(values.size());
  double mean = 0;
  for (const int64_t v : values) mean += static_cast<double>(v) / n;
  double sum = 0;
  for (const int64_t v : values) sum += (static_cast<double>(v) - mean) * (static_cast<double>(v) - mean);
  return std::sqrt(sum / (n - 1));
}

std::optional<double> theil_sen_slope(const std::vector<std::pair<double, double>>& points) {
  std::vector<double> slopes;
  for (size_t i = 0; i < points.size(); ++i)
    for (size_t j = i + 1; j < points.size(); ++j)
      if (points[j].first > points[i].first)
        slopes.push_back((points[j].second - points[i].second) / (points[j].first - points[i].first));
  if (slopes.empty()) return std::nullopt;
  return median_of(slopes);
}

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
