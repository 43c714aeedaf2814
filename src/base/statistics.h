// Order statistics, deviations and tests of them, as output.md defines them.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace profgpu {

/// Of the whole, in percent; 0 of nothing.
constexpr double percent_of(int64_t part, int64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

template <std::floating_point Real>
constexpr double percent_of(Real part, Real whole) {
  return whole > 0 ? 100 * part / whole : 0;
}

/// Sum of `of` over all items.
template <class All, class Of = std::identity>
int64_t sum_of(const All& all, Of&& of = {}) {
  int64_t sum = 0;
  for (const auto& x : all) sum += std::invoke(of, x);
  return sum;
}

/// Linear interpolation between order statistics (NumPy's default); nullopt for no values. q in 0..100.
std::optional<double> percentile(std::vector<int64_t> values, double q);
/// The same of values that are sorted already. There has to be one.
template <class Value>
double percentile_of_sorted(const std::vector<Value>& sorted, double q) {
  const double place = q / 100 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const double part = place - static_cast<double>(below);
  const auto low = static_cast<double>(sorted[below]);
  return part == 0 ? low : low + part * (static_cast<double>(sorted[below + 1]) - low);
}
/// The middle one, or the mean of the two in the middle. There has to be one; changes their order.
double median_of(std::vector<double>& values);
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
/// There has to be one.
double mean_of(const std::vector<double>& values);
/// The sample's (n - 1); 0 for fewer than two values.
double standard_deviation(const std::vector<int64_t>& values);

/// The 97.5 % quantiles of the normal distribution and of Student's t.
inline constexpr double kNormalQuantile = 1.959963984540054;
double student_t(double degrees_of_freedom);

/// A quantity that was summed for each step.
struct StepSums {
  double mean = 0;
  double stddev = 0;   ///< the sample's
  int64_t steps = 0;
};
/// Whether the means differ by more than chance explains: Welch's t-test at 5 %. False with fewer than two steps on a
/// side.
bool differs(const StepSums& before, const StepSums& after);

/// Median of the slopes between all pairs of points (x, y) (Theil 1950, Sen 1968); nullopt for fewer than two different
/// x. Points must be sorted by x.
std::optional<double> theil_sen_slope(const std::vector<std::pair<double, double>>& points);

}  // namespace profgpu
