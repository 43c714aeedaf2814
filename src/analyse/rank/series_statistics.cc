#include "analyse/rank/series_statistics.h"

#include <algorithm>
#include <cmath>

#include "trace/health.h"

namespace profgpu {
namespace {

// A value holds for so many typical distances at most; after that the value is unknown.
constexpr int64_t kLongestHold = 10;
// As in the Python package: a device is idle under 5 %, active from 50 %.
constexpr double kActiveFrom = 50;

}  // namespace

void SeriesStatistics::Moments::add(double value, double w) {
  if (w <= 0) return;
  weight += w;
  const double delta = value - mean;
  mean += delta * w / weight;
  square += w * delta * (value - mean);
}

int64_t SeriesStatistics::typical_ns() const {
  if (typical_ns_ == 0 && distance_count_ > 0) {
    auto sorted = distances_;
    const auto middle = static_cast<ptrdiff_t>(distance_count_ / 2);
    std::nth_element(sorted.begin(), sorted.begin() + middle, sorted.begin() + static_cast<ptrdiff_t>(distance_count_));
    typical_ns_ = sorted[static_cast<size_t>(middle)];
  }
  return typical_ns_ ? typical_ns_ : interval_ns_;
}

std::optional<Held> SeriesStatistics::add(int64_t time_ns, double value) {
  std::optional<Held> before;
  if (samples_ > 0) {
    if (time_ns <= last_ns_) return std::nullopt;
    const int64_t distance = time_ns - last_ns_;
    if (distance_count_ < distances_.size()) {
      distances_[distance_count_++] = distance;
      typical_ns_ = 0;
    }
    const int64_t longest = longest_hold_ns();
    before = Held{last_, last_ns_, last_ns_ + std::min(distance, longest)};
    moments_.add(last_, before->ns());
    if (distance <= longest) {
      area_ += (last_ + value) / 2 * static_cast<double>(distance) / 1e9;
      area_ns_ += distance;
    } else {
      gaps_ns_ += distance - longest;
    }
  } else {
    first_ = min_ = max_ = value;
  }
  ++samples_;
  last_ns_ = time_ns;
  last_ = value;
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
  return before;
}

int64_t SeriesStatistics::longest_hold_ns() const { return kLongestHold * std::max(typical_ns(), interval_ns_); }

int64_t SeriesStatistics::unknown_ns(int64_t end_ns) const {
  const int64_t since_last_ns = end_ns - last_ns_;
  return gaps_ns_ + (since_last_ns > longest_hold_ns() ? since_last_ns - typical_ns() : 0);
}

std::optional<Held> SeriesStatistics::last() const {
  if (samples_ == 0) return std::nullopt;
  return Held{last_, last_ns_, last_ns_ + typical_ns()};
}

SeriesSummary SeriesStatistics::summary() const {
  SeriesSummary out;
  if (samples_ == 0) return out;
  Moments all = moments_;
  all.add(last_, static_cast<double>(typical_ns()));
  out.mean = all.mean;
  if (samples_ > 1) out.stddev = std::sqrt(std::max(all.square / all.weight, 0.0));
  out.min = min_;
  out.max = max_;
  out.first = first_;
  out.last = last_;
  out.samples = samples_;
  out.resolution_ns = distance_count_ ? typical_ns() : 0;
  return out;
}

void LevelHistogram::add(const Held& held) {
  const auto level = static_cast<size_t>(std::clamp(std::lround(held.value * 10), 0L, static_cast<long>(kLevels - 1)));
  ns_[level] += held.ns();
  value_ns_[level] += held.value * held.ns();
  total_ns_ += held.ns();
  if (held.value < kIdlePct.reported) idle_ns_ += held.ns();
  if (held.value >= kActiveFrom) active_ns_ += held.ns();
}

double LevelHistogram::value_at(double ns) const {
  double before = 0, value = 0;
  for (size_t i = 0; i < kLevels; ++i) {
    if (ns_[i] <= 0) continue;
    value = value_ns_[i] / ns_[i];
    before += ns_[i];
    if (ns < before) break;
  }
  return value;
}

std::optional<double> LevelHistogram::percentile(double p, double unit_ns) const {
  if (total_ns_ <= 0 || unit_ns <= 0) return std::nullopt;
  const double units = std::max(total_ns_ / unit_ns, 1.0);
  const double position = (units - 1) * p;
  const double below = std::floor(position);
  // The middle of a unit's time is within its level despite rounding.
  const double low = value_at((below + 0.5) * unit_ns);
  const double high = value_at(std::min(below + 1.5, units - 0.5) * unit_ns);
  return low + (high - low) * (position - below);
}

void GapFinder::add(const Held& held) {
  if (held.value < kIdlePct.reported) {
    if (worked_ && begun_ns_ == 0) begun_ns_ = held.from_ns;
    ended_ns_ = held.to_ns;
    return;
  }
  worked_ = true;
  if (begun_ns_ == 0) return;
  length_ns_ += ended_ns_ - begun_ns_;
  ++count_;
  if (last_start_ns_ != 0) {
    const auto distance = static_cast<double>(begun_ns_ - last_start_ns_);
    distances_ += 1;
    const double delta = distance - mean_;
    mean_ += delta / distances_;
    square_ += delta * (distance - mean_);
  }
  last_start_ns_ = begun_ns_;
  begun_ns_ = 0;
}

IdleGaps GapFinder::gaps() const {
  if (count_ == 0) return {};
  IdleGaps out{count_, length_ns_ / count_, std::llround(mean_), false};
  out.regular = count_ >= 4 && std::sqrt(square_ / distances_) < mean_ / 4;
  return out;
}

}  // namespace profgpu
