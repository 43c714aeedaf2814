// Order statistics and deviations as output.md defines them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace profgpu {

/// Linear interpolation between order statistics (NumPy's default); nullopt for no values. q in 0..100.
std::optional<double> percentile(std::vector<int64_t> values, double q);
/// The same of values that are sorted already.
double percentile_of_sorted(const std::vector<int64_t>& sorted, double q);
/// One of the values, of two in the middle the later. There has to be one.
template <class Values>
auto upper_median(Values values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}
/// The same, of two in the middle the earlier.
template <class Values>
auto lower_median(Values values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}
/// The sample's (n - 1); 0 for fewer than two values.
double standard_deviation(const std::vector<int64_t>& values);

/// Median of the slopes between all pairs of points (x, y) (Theil 1950, Sen 1968); nullopt for fewer than two different x.
/// Points must be sorted by x.
std::optional<double> theil_sen_slope(const std::vector<std::pair<double, double>>& points);

}  // namespace profgpu
