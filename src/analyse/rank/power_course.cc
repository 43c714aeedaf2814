#include "analyse/rank/power_course.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/statistics.h"

namespace profgpu {
namespace {

// Between power samples further apart than so many typical distances nothing is known.
constexpr int64_t kMaxSampleDistances = 10;
constexpr double kNsPerSecond = 1e9;

void add_piece(std::vector<PowerCourse::Piece>& pieces, Interval time, double energy_j) {
  pieces.push_back({time, energy_j, energy_j, energy_j});
}

// From update to update. A lower value is a reset: nothing is known of the time across it.
std::vector<PowerCourse::Piece> of_counter(const SampleSeries& counter) {
  std::vector<PowerCourse::Piece> pieces;
  size_t from = 0;
  for (size_t i = 1; i < counter.time_ns.size(); ++i) {
    if (!std::isfinite(counter.value[i]) || counter.value[i] == counter.value[from]) continue;
    if (counter.value[i] > counter.value[from] && counter.time_ns[i] > counter.time_ns[from])
      add_piece(pieces, {counter.time_ns[from], counter.time_ns[i]}, counter.value[i] - counter.value[from]);
    from = i;
  }
  return pieces;
}

std::vector<PowerCourse::Piece> integrated(const SampleSeries& power) {
  std::vector<PowerCourse::Piece> pieces;
  const int64_t longest_ns = kMaxSampleDistances * median_distance(power.time_ns);
  for (size_t i = 1; i < power.time_ns.size(); ++i) {
    const Interval time{power.time_ns[i - 1], power.time_ns[i]};
    const double watts = (power.value[i - 1] + power.value[i]) / 2;
    if (time.length() <= 0 || time.length() > longest_ns || !std::isfinite(watts)) continue;
    const double seconds = static_cast<double>(time.length()) / kNsPerSecond;
    const auto [least, most] = std::minmax(power.value[i - 1], power.value[i]);
    pieces.push_back({time, watts * seconds, least * seconds, most * seconds});
  }
  return pieces;
}

const SampleSeries* power_of(const SampleLog& log, uint32_t device) {
  const SampleSeries* average = log.find(device, Metric::kPower);
  return average != nullptr ? average : log.find(device, Metric::kPowerInstant);
}

double watts_of(const PowerCourse::Piece& piece) {
  return piece.energy_j * kNsPerSecond / static_cast<double>(piece.time.length());
}

}  // namespace

std::optional<PowerCourse> PowerCourse::of(const SampleLog& log, uint32_t device) {
  PowerCourse course;
  if (const SampleSeries* counter = log.find(device, Metric::kEnergy)) course.pieces_ = of_counter(*counter);
  course.counter_ = !course.pieces_.empty();
  if (const SampleSeries* power = power_of(log, device); !course.counter_ && power != nullptr)
    course.pieces_ = integrated(*power);
  if (course.pieces_.empty()) return std::nullopt;
  course.finish(log, device);
  return course;
}

std::optional<PowerCourse> PowerCourse::of_power(const SampleLog& log, uint32_t device) {
  PowerCourse course;
  if (const SampleSeries* power = power_of(log, device)) course.pieces_ = integrated(*power);
  if (course.pieces_.empty()) return std::nullopt;
  course.finish(log, device);
  return course;
}

void PowerCourse::finish(const SampleLog& log, uint32_t device) {
  std::vector<int64_t> lengths;
  least_w_ = most_w_ = watts_of(pieces_.front());
  const auto widen = [&](double watts) {
    if (!std::isfinite(watts)) return;
    least_w_ = std::min(least_w_, watts), most_w_ = std::max(most_w_, watts);
  };
  for (const Piece& p : pieces_) lengths.push_back(p.time.length()), widen(watts_of(p));
  if (const SampleSeries* power = power_of(log, device)) {
    std::ranges::for_each(power->value, widen);
  } else {   // means over an update say little of what lies between
    const SampleSeries* limit = log.find(device, Metric::kPowerLimit);
    least_w_ = 0;
    most_w_ = limit != nullptr && !limit->value.empty() ? std::max(most_w_, limit->value.back())
                                                        : std::numeric_limits<double>::infinity();
  }
  resolution_ns_ = static_cast<int64_t>(percentile(lengths, 50).value_or(0));
}

// What of the piece's energy fell into `taken_ns` of its time is between two bounds.
double PowerCourse::error_of(const Piece& piece, double taken_ns, double energy_j) const {
  const double taken_s = taken_ns / kNsPerSecond;
  const double rest_s = static_cast<double>(piece.time.length()) / kNsPerSecond - taken_s;
  const double least = std::max(least_w_ * taken_s, rest_s > 0 ? piece.least_j - most_w_ * rest_s : piece.least_j);
  const double most = std::min(most_w_ * taken_s, piece.most_j - least_w_ * rest_s);
  return std::max({energy_j - least, most - energy_j, 0.0});
}

EnergyAmount PowerCourse::during(Interval time) const {
  return during(Intervals{time}, {time.length()});
}

EnergyAmount PowerCourse::during(const Intervals& bins, const std::vector<int64_t>& ns) const {
  EnergyAmount sum;
  double known_ns = 0;
  if (bins.empty()) return sum;
  size_t first = 0;   // of the bins that may reach into a piece
  const auto begin = std::ranges::upper_bound(pieces_, bins.front().start, {}, [](const Piece& p) { return p.time.end; });
  for (auto at = begin; at != pieces_.end() && at->time.start < bins.back().end; ++at) {
    const Piece& piece = *at;
    while (first < bins.size() && bins[first].end <= piece.time.start) ++first;
    double taken_ns = 0;
    for (size_t b = first; b < bins.size() && bins[b].start < piece.time.end; ++b)
      if (bins[b].length() > 0)
        taken_ns += static_cast<double>(ns[b]) * static_cast<double>(overlap_length(bins[b], piece.time)) /
                    static_cast<double>(bins[b].length());
    if (taken_ns <= 0) continue;
    const double energy_j = piece.energy_j * taken_ns / static_cast<double>(piece.time.length());
    sum.energy_j += energy_j;
    sum.error_j += error_of(piece, taken_ns, energy_j);
    known_ns += taken_ns;
  }
  sum.known_ns = std::llround(known_ns);
  return sum;
}

}  // namespace profgpu
