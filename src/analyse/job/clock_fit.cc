#include "analyse/job/clocks.h"

#include <algorithm>
#include <cmath>

#include "base/saturated.h"
#include "base/statistics.h"

namespace profgpu {
namespace {

constexpr size_t kMinForDrift = 8;       // encounters
constexpr uint64_t kDense_ns = 40'000;   // closer ends count as equal: ranks leave microseconds apart
constexpr size_t kMinForSpread = 4;      // encounters, to estimate the error from their spread
constexpr double kSigmas = 4;            // standard errors that a drift must exceed, and that the error includes
constexpr double kSlowExit_ns = 20'000;  // a sender may leave that much after its receiver
constexpr double kUnseenDrift = 100e-6;  // assumed of clocks with too few encounters

int64_t whole(double ns) { return std::llround(std::clamp(ns, -9e18, 9e18)); }

// Where values are densest: the middle of the narrowest window, of 40 us, 160 us and so on, with a fifth of them and at
// least three. `values` are sorted.
int64_t densest(const std::vector<int64_t>& values) {
  const size_t enough = std::min(values.size(), std::max<size_t>(3, values.size() / 5));
  for (uint64_t width = kDense_ns;; width *= 4) {
    size_t begin = 0, most = 0;
    for (size_t i = 0, j = 0; i < values.size(); ++i) {
      while (j < values.size() && static_cast<uint64_t>(values[j]) - static_cast<uint64_t>(values[i]) <= width) ++j;
      if (j - i > most) most = j - i, begin = i;
    }
    if (most >= enough || width > UINT64_MAX / 4) return values[begin + most / 2];
  }
}

/// An encounter as a point: own time, and the offset it implies less the first guess.
struct Point {
  double x = 0, y = 0;
  double low = 0, high = 0;    // bounds of y: no rank leaves a collective before all have arrived
  int64_t known_error_ns = 0;
  std::optional<bool> receives;
};

struct Line {
  double at = 0, slope = 0;       // y at x = 0, and its change
  double mean_x = 0, sxx = 0, scale = 0;   // of the fitted points; scale: standard deviation
  std::vector<double> rests;      // residuals, sorted
  [[nodiscard]] double operator()(double x) const { return at + slope * x; }
  [[nodiscard]] double slope_error() const { return sxx > 0 ? std::max(scale, 1.0) / std::sqrt(sxx) : INFINITY; }
};

// Over medians of at most 64 groups of points, because it is quadratic. `points` are sorted by x.
double first_slope(const std::vector<Point>& points) {
  const size_t groups = std::min<size_t>(64, points.size());
  std::vector<std::pair<double, double>> of_group;
  for (size_t g = 0; g < groups; ++g) {
    std::vector<double> xs, ys;
    for (size_t i = g * points.size() / groups; i < (g + 1) * points.size() / groups; ++i)
      xs.push_back(points[i].x), ys.push_back(points[i].y);
    of_group.emplace_back(upper_median(std::move(xs)), upper_median(std::move(ys)));
  }
  return theil_sen_slope(of_group).value_or(0);
}

void least_squares(const std::vector<Point>& points, bool sloped, Line& line) {
  const auto n = static_cast<double>(points.size());
  double mean_y = 0, sxy = 0;
  line.mean_x = line.sxx = 0;
  for (const Point& p : points) line.mean_x += p.x / n, mean_y += p.y / n;
  for (const Point& p : points) {
    line.sxx += (p.x - line.mean_x) * (p.x - line.mean_x);
    sxy += (p.x - line.mean_x) * (p.y - mean_y);
  }
  line.slope = sloped && line.sxx > 0 ? sxy / line.sxx : 0;
  line.at = mean_y - line.slope * line.mean_x;
}

// A robust line first, then least squares over the points near it. Keeps only those points.
Line fitted(std::vector<Point>& points, bool sloped) {
  Line line;
  line.slope = sloped ? first_slope(points) : 0;
  std::vector<double> y;
  for (const Point& p : points) y.push_back(p.y - line.slope * p.x);
  line.at = upper_median(std::move(y));
  for (int round = 0; round < 4; ++round) {
    std::vector<double> rests;
    for (const Point& p : points) rests.push_back(std::abs(p.y - line(p.x)));
    const double most = std::max(4 * 1.4826 * upper_median(std::move(rests)), static_cast<double>(kDense_ns) / 2);
    std::erase_if(points, [&](const Point& p) { return std::abs(p.y - line(p.x)) > most; });
    least_squares(points, sloped, line);
  }
  double squares = 0;
  for (const Point& p : points) {
    line.rests.push_back(p.y - line(p.x));
    squares += line.rests.back() * line.rests.back();
  }
  line.scale = std::sqrt(squares / std::max(static_cast<double>(points.size()) - (sloped ? 2 : 1), 1.0));
  std::sort(line.rests.begin(), line.rests.end());
  return line;
}

int64_t difference(const Encounter& e) { return saturated_sub(e.known.end, e.own.end); }

// The origin of x: the encounter closest to the guess.
int64_t origin(const std::vector<Encounter>& encounters, int64_t guess) {
  const auto off = [&](const Encounter& e) { return saturated_distance(difference(e), guess); };
  return std::ranges::min_element(encounters, {}, off)->own.end;
}

// Calls that the guess leaves further apart than clocks drift were not one collective.
std::vector<Point> points_near(const std::vector<Encounter>& encounters, int64_t guess, int64_t origin_ns) {
  std::vector<Point> points;
  for (const Encounter& e : encounters) {
    const auto x = static_cast<double>(saturated_sub(e.own.end, origin_ns));
    const int64_t apart = std::max(saturated_sub(saturated_add(e.own.start, guess), e.known.end),
                                   saturated_sub(e.known.start, saturated_add(e.own.end, guess)));
    if (static_cast<double>(apart) > kMaxDrift * std::abs(x) + static_cast<double>(e.known_error_ns)) continue;
    const auto off = [&](int64_t known, int64_t own) {
      return static_cast<double>(saturated_sub(saturated_sub(known, own), guess));
    };
    points.push_back({x, off(e.known.end, e.own.end), off(e.known.start, e.own.end), off(e.known.end, e.own.start),
                      e.known_error_ns, e.receives});
  }
  std::ranges::sort(points, {}, [](const Point& p) { return std::pair(p.x, p.y); });
  return points;
}

double error_of(const Line& line, const std::vector<Point>& points, double x, bool ends_together) {
  const size_t n = line.rests.size();
  double known = 0, below = INFINITY, above = INFINITY, longest = 0;
  for (const Point& p : points) {
    known += static_cast<double>(p.known_error_ns) / static_cast<double>(n);
    below = std::clamp(line(p.x) - p.low, 0.0, below);
    above = std::clamp(p.high - line(p.x), 0.0, above);
    longest = std::max(longest, p.high - p.low);
  }
  const double away = std::abs(x - line.mean_x), range = line.rests.back() - line.rests.front();
  double error = 0;
  if (n < kMinForSpread) error = std::max(below, above) + kUnseenDrift * away;
  else if (n < kMinForDrift) error = 2 * range + kUnseenDrift * away;
  else error = (line.rests[n * 3 / 4] - line.rests[n / 4]) / 2 + kSigmas * line.scale / std::sqrt(double(n));
  if (n >= kMinForDrift && line.sxx > 0) error += 3 * away * line.scale / std::sqrt(line.sxx);
  return error + known + (ends_together ? 0 : longest);
}

struct Range {
  double low = -INFINITY, high = INFINITY;
  [[nodiscard]] bool bounded() const { return low <= high && std::isfinite(low) && std::isfinite(high); }
};

// Bounds of the correction to the line at x, because a receive ends no sooner than its send.
Range message_bounds(const Line& line, const std::vector<Point>& points, double x) {
  const double drift = std::min(kMaxDrift, kSigmas * line.slope_error());
  Range range;
  for (const Point& p : points) {
    if (!p.receives) continue;
    const double rest = p.y - line(p.x);
    const double slack = kSlowExit_ns + static_cast<double>(p.known_error_ns) + drift * std::abs(p.x - x);
    if (*p.receives) range.low = std::max(range.low, rest - slack);
    else range.high = std::min(range.high, rest + slack);
  }
  return range;
}

}  // namespace

std::optional<ClockFit> fit_clock(const std::vector<Encounter>& encounters, int64_t at_ns, bool ends_together) {
  if (encounters.empty()) return std::nullopt;
  std::vector<int64_t> differences;
  for (const Encounter& e : encounters) differences.push_back(difference(e));
  std::sort(differences.begin(), differences.end());
  const int64_t guess = densest(differences), origin_ns = origin(encounters, guess);
  std::vector<Point> points = points_near(encounters, guess, origin_ns);
  if (points.empty()) return std::nullopt;
  Line line;
  std::vector<Point> kept = points;
  const bool enough = points.size() >= kMinForDrift;
  if (enough) line = fitted(kept, true);
  if (!enough || kept.size() < kMinForDrift || std::abs(line.slope) > kMaxDrift ||
      std::abs(line.slope) < kSigmas * line.slope_error()) {
    kept = std::move(points);
    line = fitted(kept, false);
  }
  const auto x = static_cast<double>(saturated_sub(at_ns, origin_ns));
  double y = line(x), error = error_of(line, kept, x, ends_together);
  if (const Range range = message_bounds(line, kept, x); range.bounded()) {
    const double shift = std::clamp(0.0, range.low, range.high);
    y += shift;
    error = std::min(error, std::max(range.high - shift, shift - range.low));
  }
  return ClockFit{.offset_ns = saturated_add(guess, whole(y)),
                  .drift_ppm = line.slope * 1e6,
                  .error_ns = std::max<int64_t>(1, whole(error))};
}

}  // namespace profgpu
