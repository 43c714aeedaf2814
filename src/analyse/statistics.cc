#include "analyse/statistics.h"

#include <algorithm>
#include <cmath>

namespace profgpu {

double percentile_of_sorted(const std::vector<int64_t>& sorted, double q) {
  const double place = q / 100 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const double part = place - static_cast<double>(below);
  const auto low = static_cast<double>(sorted[below]);
  if (part == 0) return low;
  return low + part * (static_cast<double>(sorted[below + 1]) - low);
}

std::optional<double> percentile(std::vector<int64_t> values, double q) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  return percentile_of_sorted(values, q);
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
  const auto middle = slopes.begin() + static_cast<ptrdiff_t>(slopes.size() / 2);
  std::nth_element(slopes.begin(), middle, slopes.end());
  if (slopes.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(slopes.begin(), middle)) / 2;
}

}  // namespace profgpu
