#include "analyse/rank/sample_series.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "analyse/rank/devices.h"
#include "analyse/report/document.h"
#include "base/text.h"
#include "trace/sample.h"

namespace profgpu {
namespace {

// A sample holds for at most so many typical distances.
constexpr int64_t kMaxDistances = 10;

double highest_clock(const SampleLog& log, uint32_t device, const SampleSeries& clock) {
  if (const SampleSeries* stated = log.find(device, Metric::kSmClockMax)) return stated->value.back();
  if (const auto stated = log.devices[device].constant(Metric::kSmClockMax)) return *stated;
  return std::ranges::max(clock.value);
}

}  // namespace

std::optional<ClockCourse> ClockCourse::of(const SampleLog& log, uint32_t device) {
  const SampleSeries* clock = log.find(device, Metric::kSmClock);
  const SampleSeries* reasons = log.find(device, Metric::kClockEventReasons);
  if (!clock || !reasons) return std::nullopt;
  ClockCourse course;
  course.highest_ = highest_clock(log, device, *clock);
  const int64_t typical_ns = median_distance(clock->time_ns);
  for (size_t i = 0; i < clock->time_ns.size(); ++i) {
    const int64_t start = clock->time_ns[i];
    const int64_t next = i + 1 < clock->time_ns.size() ? clock->time_ns[i + 1] : start + typical_ns;
    if (next - start > kMaxDistances * typical_ns || next <= start) continue;
    course.held_.push_back({start, next, clock->value[i],
                            (static_cast<uint32_t>(reasons->at(start).value_or(0)) & kHeldBackReasons) != 0});
  }
  if (course.held_.empty() || !(course.highest_ > 0)) return std::nullopt;
  return course;
}

std::optional<uint16_t> ClockCourse::slow_permille(int64_t start_ns, int64_t end_ns) const {
  auto at = std::ranges::upper_bound(held_, start_ns, {}, &Held::end_ns);
  int64_t reached = start_ns;
  double sum = 0;
  bool held_back = false;
  for (; at != held_.end() && at->start_ns <= reached && reached < end_ns; ++at) {
    const int64_t until = std::min(end_ns, at->end_ns);
    sum += at->clock * static_cast<double>(until - reached);
    held_back |= at->held_back;
    reached = until;
  }
  if (reached < end_ns || end_ns <= start_ns) return std::nullopt;
  if (!held_back) return uint16_t{0};
  const double clock = sum / static_cast<double>(end_ns - start_ns);
  return static_cast<uint16_t>(std::clamp(std::lround(1000 * (1 - clock / highest_)), 0L, 1000L));
}

namespace {

constexpr size_t kSeriesPoints = 4000;

// "sm_clock_mhz" to "SM clock"
std::string title_of(const MetricInfo& metric) {
  static constexpr std::string_view kUnits[] = {"_pct", "_bytes", "_w", "_j", "_c", "_mhz", "_ns", "_gbps", "_per_s"};
  static constexpr std::string_view kAcronyms[] = {"sm",  "dram", "fp64", "fp32", "fp16", "pcie",
                                                   "ofa", "jpeg", "bar1", "xgmi", "ecc"};
  std::string_view name = metric.name;
  if (const auto* unit = first_where(kUnits, [&](std::string_view u) { return name.ends_with(u); }))
    name.remove_suffix(unit->size());
  return joined(pieces_of(name, '_'), " ", [](std::string_view word) {
    return std::ranges::count(kAcronyms, word) > 0 ? upper_case(word) : std::string(word);
  });
}

struct Point {
  int64_t time_ns = 0;
  double value = 0;
};

// Samples within the page's time, and the last one before it.
std::vector<Point> points_within(const SampleSeries& series, const PlacedSamples& samples) {
  std::vector<Point> points;
  for (size_t i = 0; i < series.time_ns.size(); ++i) {
    const int64_t time_ns = series.time_ns[i] - samples.shift_ns;
    if (time_ns > samples.span_ns || !std::isfinite(series.value[i])) continue;
    if (time_ns <= 0) points.clear();
    points.push_back({std::max<int64_t>(time_ns, 0), series.value[i]});
  }
  return points;
}

Point all_reasons(std::span<const Point> stretch) {
  uint64_t any = 0;
  for (const Point& p : stretch) any |= static_cast<uint64_t>(p.value);
  return {stretch.front().time_ns, static_cast<double>(any)};
}

// The least and the most, in order of time: what a plot of all of them would reach.
void add_ends(std::span<const Point> stretch, std::vector<Point>& out) {
  const auto [least, most] = std::ranges::minmax_element(stretch, {}, &Point::value);
  out.push_back(least < most ? *least : *most);
  if (least != most) out.push_back(least < most ? *most : *least);
}

std::vector<Point> thinned(const std::vector<Point>& points, bool bits) {
  if (points.size() <= kSeriesPoints) return points;
  std::vector<Point> out;
  const size_t most_stretches = bits ? kSeriesPoints : kSeriesPoints / 2;
  const size_t length = (points.size() + most_stretches - 1) / most_stretches;
  for (size_t i = 0; i < points.size(); i += length) {
    const std::span stretch(points.begin() + static_cast<ptrdiff_t>(i), std::min(length, points.size() - i));
    if (bits) out.push_back(all_reasons(stretch));
    else add_ends(stretch, out);
  }
  // The first holds from the page's beginning on.
  if (out.front().time_ns > points.front().time_ns) out.insert(out.begin(), points.front());
  return out;
}

}  // namespace

std::optional<uint32_t> sampled_device(const SampleLog& log, const std::vector<PlacedRank>& ranks,
                                       const PlacedRank& rank, int32_t device) {
  std::vector<std::string> names;
  for (const PlacedRank& r : ranks) names.push_back(r.facts->trace().host_name);
  const SampleHosts hosts(log, names);
  const bool only_ones = log.devices.size() == 1 && ranks.size() == 1 && rank.facts->trace().device_rows.size() == 1;
  const std::string name = rank.facts->trace().properties(device).name;
  for (uint32_t d = 0; d < log.devices.size(); ++d) {
    const DeviceInfo& info = log.devices[d];
    if (!hosts.fits(rank.facts->trace().host_name, info)) continue;
    const bool is_it = only_ones || (!info.parent && static_cast<int64_t>(info.index) == device);
    if (is_it && (name.empty() || info.name.empty() || name == info.name)) return d;
  }
  return std::nullopt;
}

std::vector<PageSeries> sample_series(const PlacedSamples& samples, const std::map<uint32_t, int>& rank_of) {
  std::vector<PageSeries> all;
  for (const SampleSeries& series : samples.log->series) {
    const MetricInfo& metric = metric_info(series.metric);
    if (metric.kind != MetricKind::kGauge) continue;
    const bool bits = series.metric == Metric::kClockEventReasons;
    const std::vector<Point> points = thinned(points_within(series, samples), bits);
    if (points.empty()) continue;
    PageSeries out;
    out.device = samples.log->label(series.device);
    if (const auto it = rank_of.find(series.device); it != rank_of.end()) out.rank = it->second;
    out.metric = metric.name;
    out.title = title_of(metric);
    out.unit = metric.unit;
    // Bytes and bits are whole; a thousandth is precise enough for anything else.
    out.scale = bits || metric.unit == "B" ? 1 : 0.001;
    for (const Point& p : points) {
      if (!(std::abs(p.value / out.scale) < 9e15)) continue;
      out.time_ns.push_back(p.time_ns);
      out.value.push_back(std::llround(p.value / out.scale));
    }
    all.push_back(std::move(out));
  }
  return all;
}

}  // namespace profgpu
