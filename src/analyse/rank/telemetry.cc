#include "analyse/rank/telemetry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "analyse/rank/series_statistics.h"
#include "analyse/rank/time_bins.h"
#include "base/statistics.h"
#include "base/text.h"
#include "trace/health.h"
#include "trace/sample.h"

namespace profgpu {
namespace {

constexpr size_t kTraceColumns = 40, kGrowthParts = 32;
constexpr size_t kMaxWaiting = 512;
// Enough for a node, and a bound for a fork bomb.
constexpr size_t kMaxProcesses = 512;
// Memory also grows while a job starts.
constexpr int64_t kShortestGrowth_ns = 30'000'000'000;
// NVIDIA devices since Volta update their power sensors about ten times a second.
constexpr int64_t kShortestEnergy_ns = 10 * 100'000'000;

// A counter's increase. A lower value means a reset (the driver was reloaded) or a wrap: it counts from 0.
class Growth {
 public:
  void add(double value, int64_t time_ns) {
    if (samples_ == 0) first_ns_ = time_ns;
    last_ns_ = std::max(last_ns_, time_ns);
    if (last_) {
      if (value >= *last_) grown_ += value - *last_;
      else if (value < *last_ / 2) grown_ += value, went_back_ = true;
    }
    if (!last_ || value > *last_ || value < *last_ / 2) last_ = value;
    ++samples_;
  }
  [[nodiscard]] std::optional<double> grown() const { return samples_ > 1 ? std::optional(grown_) : std::nullopt; }
  [[nodiscard]] bool went_back() const { return went_back_; }
  [[nodiscard]] int64_t span_ns() const { return last_ns_ - first_ns_; }

 private:
  std::optional<double> last_;
  double grown_ = 0;
  int64_t samples_ = 0, first_ns_ = 0, last_ns_ = 0;
  bool went_back_ = false;
};

struct Reason {
  Metric counter;
  ClockReason bit;
};
constexpr Reason kReasons[] = {
    {Metric::kThrottlePower, ClockReason::kSwPowerCap},
    {Metric::kThrottleSwThermal, ClockReason::kSwThermal},
    {Metric::kThrottleHwThermal, ClockReason::kHwThermal},
    {Metric::kThrottleHwPowerBrake, ClockReason::kHwPowerBrake},
    {Metric::kThrottleSyncBoost, ClockReason::kSyncBoost},
};

template <class Map>
auto* find_in(Map& map, Metric metric) {
  const auto it = map.find(metric);
  return it == map.end() ? nullptr : &it->second;
}

// The slope that lasts: over the whole time or the second half, whichever is closer to 0.
std::optional<double> lasting_slope(const std::vector<std::pair<double, double>>& points) {
  const auto whole = theil_sen_slope(points);
  const auto half = theil_sen_slope({points.begin() + static_cast<ptrdiff_t>(points.size() / 2), points.end()});
  if (!whole || !half) return std::nullopt;
  if (*whole * *half <= 0) return 0.0;
  return std::abs(*whole) < std::abs(*half) ? whole : half;
}

}  // namespace

const SeriesSummary* DeviceTelemetry::find(Metric metric) const { return find_in(series, metric); }

SeriesSummary DeviceTelemetry::summary(Metric metric) const {
  const SeriesSummary* s = find(metric);
  return s ? *s : SeriesSummary();
}

std::optional<double> DeviceTelemetry::growth(Metric metric) const {
  const double* value = find_in(grown, metric);
  return value ? std::optional(*value) : std::nullopt;
}

std::string DeviceTelemetry::notes_text() const { return joined(notes, "; "); }

std::optional<int64_t> DeviceTelemetry::trace_column_ns() const {
  return trace.empty() ? std::nullopt : std::optional(duration_ns() / static_cast<int64_t>(trace.size()));
}

std::optional<double> DeviceTelemetry::throttled_pct(uint32_t reasons) const {
  if (!throttle_known) return std::nullopt;
  double most = 0, all = 0;
  for (const ThrottleTime& t : throttle)
    if ((t.bits & reasons) != 0) most = std::max(most, t.pct), all += t.pct;
  const auto sampled = sampled_pct.find(reasons);
  if (sampled != sampled_pct.end()) most = std::clamp(sampled->second, most, all);
  return std::min(most, 100.0);
}

std::optional<double> DeviceTelemetry::limit(Metric metric) const {
  if (const double* value = find_in(constants, metric)) return *value;
  if (auto value = device.constant(metric)) return value;
  return summary(metric).last;
}

std::optional<double> DeviceTelemetry::memory_peak_pct() const {
  const std::optional<double> used = summary(Metric::kMemoryUsed).max, total = limit(Metric::kMemoryTotal);
  return used && total && *total > 0 ? std::optional(100 * *used / *total) : std::nullopt;
}

std::optional<double> DeviceTelemetry::energy_per_busy_second_j() const {
  if (!energy_j || energy_ns <= 0 || busy_ns.value_or(0) <= 0) return std::nullopt;
  const double known_j = *energy_j * static_cast<double>(known_ns) / static_cast<double>(energy_ns);
  return known_j * 1e9 / static_cast<double>(*busy_ns);
}

std::optional<double> DeviceTelemetry::busy_pct() const {
  for (const Metric metric : {Metric::kUtilization, Metric::kGraphicsActive, Metric::kSmActive})
    if (const auto mean = summary(metric).mean) return mean;
  return std::nullopt;
}

bool DeviceTelemetry::used() const {
  if (const auto utilization = summary(Metric::kUtilization).max; utilization || !processes.empty())
    return !processes.empty() || *utilization > 0;
  return busy_pct().value_or(0) > 0;
}

namespace {

// Read at each tick: a value says nothing of later.
bool is_momentary(Metric metric) {
  return metric == Metric::kUtilization || metric == Metric::kMemoryUtilization || metric == Metric::kPower ||
         metric == Metric::kPowerInstant || metric_info(metric).unit == "%";
}

}  // namespace

struct TelemetryCollector::Impl {
  Impl(DeviceInfo d, int64_t interval, int64_t warmup)
      : device(std::move(d)), interval_ns(interval), warmup_ns(warmup) {
    waiting.reserve(kMaxWaiting);
  }

  void add_sample(const Sample& sample);
  void take_in();
  void add_process(const ProcessSample& process, int64_t time_ns);
  void held(Metric metric, const Held& h);
  void begin(int64_t time_ns);
  void tick(int64_t time_ns);
  void show_series(DeviceTelemetry& out) const;
  void show_energy(DeviceTelemetry& out) const;
  [[nodiscard]] const SeriesStatistics* power() const;
  [[nodiscard]] std::string energy_note(const DeviceTelemetry& out) const;
  void show_throttle(DeviceTelemetry& out) const;
  void show_course(DeviceTelemetry& out) const;
  [[nodiscard]] std::optional<double> sampled_throttle_ns(ClockReason bit) const;

  DeviceInfo device;
  int64_t interval_ns, warmup_ns;
  int64_t first_ns = 0, last_ns = 0, from_ns = 0, ticks = 0;
  // Not yet in the statistics: these are spread over memory, and updating them on each tick would be slow.
  std::vector<Sample> waiting;
  std::map<Metric, SeriesStatistics> series;
  std::map<Metric, Growth> counters;
  std::map<Metric, double> constants;
  std::map<Metric, double> in_warmup;   // the last of each gauge
  LevelHistogram levels;
  GapFinder gaps;
  std::optional<TimeBins> utilization, memory;
  std::map<uint32_t, double> reason_ns;   // time that each clock event reason was set
  std::map<uint32_t, double> any_reason_ns;   // likewise, any of several
  double reasons_watched_ns = 0;
  std::map<int64_t, ProcessTelemetry> processes;
  std::map<int64_t, SeriesStatistics> process_utilization;
};

void TelemetryCollector::Impl::begin(int64_t time_ns) {
  if (first_ns != 0) return;
  first_ns = last_ns = time_ns;
  from_ns = time_ns + warmup_ns;
}

void TelemetryCollector::Impl::tick(int64_t time_ns) {
  begin(time_ns);
  last_ns = std::max(last_ns, time_ns);
  ticks += time_ns >= from_ns;
}

void TelemetryCollector::Impl::held(Metric metric, const Held& h) {
  if (metric == Metric::kUtilization) {
    levels.add(h);
    gaps.add(h);
    if (!utilization) utilization.emplace(from_ns, interval_ns);
    utilization->add(h.from_ns, h.to_ns, h.value);
  } else if (metric == Metric::kMemoryUsed) {
    if (!memory) memory.emplace(from_ns, interval_ns);
    memory->add(h.from_ns, h.to_ns, h.value);
  } else if (metric == Metric::kClockEventReasons) {
    reasons_watched_ns += h.ns();
    for (const ClockReasonInfo& r : clock_reasons())
      if (static_cast<uint64_t>(h.value) & static_cast<uint32_t>(r.reason))
        reason_ns[static_cast<uint32_t>(r.reason)] += h.ns();
    for (const uint32_t reasons : {kHeatReasons, kPowerReasons})
      if ((static_cast<uint64_t>(h.value) & reasons) != 0) any_reason_ns[reasons] += h.ns();
  }
}

void TelemetryCollector::Impl::add_sample(const Sample& sample) {
  if (!std::isfinite(sample.value)) return;
  const MetricKind kind = metric_info(sample.metric).kind;
  if (kind == MetricKind::kConstant) {
    constants[sample.metric] = sample.value;
  } else if (sample.time_ns >= from_ns) {
    if (kind == MetricKind::kCounter) {
      counters[sample.metric].add(sample.value, sample.time_ns);
    } else {
      auto [it, is_new] = series.try_emplace(sample.metric, interval_ns);
      if (auto before = it->second.add(sample.time_ns, sample.value)) held(sample.metric, *before);
    }
  } else if (kind != MetricKind::kCounter) {
    in_warmup[sample.metric] = sample.value;
  }
}

void TelemetryCollector::Impl::take_in() {
  for (const Sample& s : waiting) add_sample(s);
  waiting.clear();
}

void TelemetryCollector::Impl::add_process(const ProcessSample& p, int64_t time_ns) {
  auto it = processes.find(p.pid);
  if (it == processes.end()) {
    if (processes.size() >= kMaxProcesses) return;
    it = processes.emplace(p.pid, ProcessTelemetry{}).first;
    it->second.first_ns = time_ns;
  }
  ProcessTelemetry& t = it->second;
  const std::string name = p.name.empty() ? t.process.name : p.name;
  t.process = p;
  t.process.name = name;
  t.last_ns = time_ns;
  if (p.memory_bytes) t.memory_peak_bytes = std::max(t.memory_peak_bytes.value_or(0), *p.memory_bytes);
  if (!p.utilization_pct) return;
  t.utilization_max_pct = std::max(t.utilization_max_pct.value_or(0), *p.utilization_pct);
  process_utilization.try_emplace(p.pid, interval_ns).first->second.add(time_ns, *p.utilization_pct);
}

void TelemetryCollector::Impl::show_series(DeviceTelemetry& out) const {
  for (const auto& [metric, s] : series) out.series.emplace(metric, s.summary());
  // What changes slowly is read in turns: a value of the warm-up still holds if there is no newer one.
  for (const auto& [metric, value] : in_warmup) {
    if (ticks == 0 || series.contains(metric) || is_momentary(metric)) continue;
    SeriesStatistics still(interval_ns);
    still.add(from_ns, value);
    out.series.emplace(metric, still.summary());
  }
  for (const auto& [metric, c] : counters) {
    if (auto grown = c.grown()) out.grown.emplace(metric, *grown);
    if (c.went_back())
      out.notes.push_back(
          fmt::format("{} went back: the driver was reset, or the counter wrapped; what it showed since is counted",
                      metric_info(metric).name));
  }
  LevelHistogram all = levels;
  const SeriesStatistics* utilization_series = find_in(series, Metric::kUtilization);
  const std::optional<Held> last = utilization_series ? utilization_series->last() : std::nullopt;
  if (last) all.add(*last);
  const double unit_ns = last ? last->ns() : 0;
  out.utilization_p5 = all.percentile(0.05, unit_ns);
  out.utilization_p50 = all.percentile(0.5, unit_ns);
  out.utilization_p95 = all.percentile(0.95, unit_ns);
  out.utilization_p99 = all.percentile(0.99, unit_ns);
  out.idle_pct = all.idle_pct();
  out.active_pct = all.active_pct();
  out.idle_gaps = gaps.gaps();
  // Only over the sampled time: the last sample may hold beyond it.
  const std::optional<double> mean = out.summary(Metric::kUtilization).mean;
  if (!mean || out.duration_ns() <= 0) return;
  out.known_ns = std::max<int64_t>(out.duration_ns() - utilization_series->unknown_ns(out.last_ns), 0);
  if (out.known_ns > 0) out.busy_ns = std::llround(*mean / 100 * static_cast<double>(out.known_ns));
}

const SeriesStatistics* TelemetryCollector::Impl::power() const {
  const SeriesStatistics* average = find_in(series, Metric::kPower);
  return average ? average : find_in(series, Metric::kPowerInstant);
}

// Bounds of the energy over a time of which the readings cover a part. When the power changed is known to one reading.
std::pair<double, double> integrated_within(const SeriesStatistics& power, int64_t span_ns) {
  const SeriesSummary s = power.summary();
  const double rest_s = static_cast<double>(std::max<int64_t>(span_ns - power.area_ns(), 0)) / 1e9;
  const double change_j = (*s.max - *s.min) * static_cast<double>(s.resolution_ns) / 1e9;
  return {power.area() + *s.min * rest_s - change_j, power.area() + *s.max * rest_s + change_j};
}

void TelemetryCollector::Impl::show_energy(DeviceTelemetry& out) const {
  const SeriesStatistics* const watts = power();
  // A counter that does not move while the device draws power has not been updated yet.
  const bool draws = watts && watts->summary().mean.value_or(0) > 0;
  auto grown = out.grown.find(Metric::kEnergy);
  if (grown != out.grown.end() && grown->second <= 0 && (draws || out.duration_ns() < kShortestEnergy_ns))
    grown = (out.grown.erase(grown), out.grown.end());
  if (watts && watts->area_ns() > 0) {
    out.energy_j = out.energy_integrated_j = watts->area();
    out.energy_ns = watts->area_ns();
    out.energy_method = "integrated";
  }
  if (grown != out.grown.end()) {
    out.energy_j = grown->second;
    out.energy_ns = counters.at(Metric::kEnergy).span_ns();
    out.energy_method = "counter";
  }
  if (out.energy_j) out.energy_note = energy_note(out);
}

std::string TelemetryCollector::Impl::energy_note(const DeviceTelemetry& out) const {
  if (device.parent) return "of the whole GPU, which other instances share";
  if (out.duration_ns() < kShortestEnergy_ns)
    return "too short for the power sensor, which is read about ten times a second";
  if (!out.energy_integrated_j) return "";
  if (out.energy_method == "counter") {
    const auto [least, most] = integrated_within(*power(), out.energy_ns);
    const double j = *out.energy_j;
    const double pct = 100 * std::max({least - j, j - most, 0.0}) / std::max(j, 1e-9);
    return pct > 5 ? fmt::format("the counter and the integrated power differ by {:.0f} %", pct) : "";
  }
  const double known = 100.0 * static_cast<double>(out.energy_ns) / static_cast<double>(out.duration_ns());
  return fmt::format("integrated over {:.0f} % of the time from {} readings; sensors are within about 5 %",
                     std::min(known, 100.0), power()->summary().samples);
}

std::optional<double> TelemetryCollector::Impl::sampled_throttle_ns(ClockReason bit) const {
  if (reasons_watched_ns <= 0) return std::nullopt;
  const auto it = reason_ns.find(static_cast<uint32_t>(bit));
  return it == reason_ns.end() ? 0 : it->second;
}

void TelemetryCollector::Impl::show_throttle(DeviceTelemetry& out) const {
  const auto duration = static_cast<double>(std::max<int64_t>(out.duration_ns(), 1));
  auto show = [&](std::string name, std::string words, uint32_t bits, double ns, double of_ns, const char* method) {
    out.throttle_known = true;
    if (ns <= 0) return;
    const double pct = std::min(100 * ns / of_ns, 100.0);
    out.throttle.push_back({std::move(name), std::move(words), bits, std::llround(ns), pct, method});
  };
  auto show_bit = [&](ClockReason bit, double ns, double of_ns, const char* method) {
    const ClockReasonInfo& info = *std::ranges::find(clock_reasons(), bit, &ClockReasonInfo::reason);
    show(std::string(info.name), std::string(info.words), static_cast<uint32_t>(bit), ns, of_ns, method);
  };
  bool thermal_split = false;
  for (const Reason& reason : kReasons) {
    if (const auto grown_ns = out.growth(reason.counter)) {
      show_bit(reason.bit, *grown_ns, duration, "counter");
      thermal_split |= reason.counter == Metric::kThrottleSwThermal || reason.counter == Metric::kThrottleHwThermal;
    } else if (auto ns = sampled_throttle_ns(reason.bit)) {
      show_bit(reason.bit, *ns, reasons_watched_ns, "sampled");
    }
  }
  // The older counter covers both kinds of thermal slowdown.
  if (const auto grown_ns = out.growth(Metric::kThrottleThermal); grown_ns && !thermal_split) {
    std::erase_if(out.throttle, [](const ThrottleTime& t) { return (t.bits & kHeatReasons) != 0; });
    show("thermal", "temperature", kHeatReasons, *grown_ns, duration, "counter");
  }
  for (ClockReason bit : {ClockReason::kApplicationClocks, ClockReason::kDisplayClocks})
    if (auto ns = sampled_throttle_ns(bit)) show_bit(bit, *ns, reasons_watched_ns, "sampled");
  if (const auto grown_ns = out.growth(Metric::kThrottleReliability))
    show("reliability", "the voltage limit", 0, *grown_ns, duration, "counter");
  for (const auto& [reasons, ns] : any_reason_ns) out.sampled_pct[reasons] = 100 * ns / reasons_watched_ns;
  std::ranges::stable_sort(out.throttle, std::greater(), &ThrottleTime::time_ns);
}

void TelemetryCollector::Impl::show_course(DeviceTelemetry& out) const {
  auto with_last = [&](const std::optional<TimeBins>& bins, Metric metric) {
    std::optional<TimeBins> all = bins;
    const SeriesStatistics* statistics = find_in(series, metric);
    if (!statistics) return all;
    if (!all) all.emplace(from_ns, interval_ns);
    if (auto last = statistics->last()) all->add(last->from_ns, std::min(last->to_ns, out.last_ns), last->value);
    return all;
  };
  if (auto bins = with_last(utilization, Metric::kUtilization)) out.trace = bins->means(out.last_ns, kTraceColumns);
  auto bins = with_last(memory, Metric::kMemoryUsed);
  if (!bins || out.duration_ns() < kShortestGrowth_ns) return;
  std::vector<double> least = bins->minima(out.last_ns, kGrowthParts);
  const double part_s = static_cast<double>(out.duration_ns()) / 1e9 / kGrowthParts;
  std::vector<std::pair<double, double>> points;
  for (size_t i = 0; i < least.size(); ++i)
    if (!std::isnan(least[i])) points.emplace_back(static_cast<double>(i) * part_s, least[i]);
  out.memory_growth_bytes_per_s = lasting_slope(points);
}

TelemetryCollector::TelemetryCollector(DeviceInfo device, int64_t interval_ns, int64_t warmup_ns)
    : impl_(std::make_unique<Impl>(std::move(device), interval_ns, warmup_ns)) {}
TelemetryCollector::~TelemetryCollector() = default;
TelemetryCollector::TelemetryCollector(TelemetryCollector&&) noexcept = default;
TelemetryCollector& TelemetryCollector::operator=(TelemetryCollector&&) noexcept = default;

void TelemetryCollector::add(const Reading& reading) {
  if (!reading.failed) impl_->tick(reading.time_ns);
  if (impl_->waiting.size() + reading.samples.size() > kMaxWaiting) impl_->take_in();
  impl_->waiting.insert(impl_->waiting.end(), reading.samples.begin(), reading.samples.end());
  if (reading.has_processes && reading.time_ns >= impl_->from_ns)
    for (const ProcessSample& p : reading.processes) impl_->add_process(p, reading.time_ns);
}

DeviceTelemetry TelemetryCollector::summary() const {
  impl_->take_in();
  const Impl& i = *impl_;
  DeviceTelemetry out;
  out.device = i.device;
  out.interval_ns = i.interval_ns;
  out.ticks = i.ticks;
  out.last_ns = i.last_ns;
  out.first_ns = std::min(i.from_ns, i.last_ns);
  for (const auto& [metric, value] : i.device.constants) out.constants[metric] = value;
  for (const auto& [metric, value] : i.constants) out.constants[metric] = value;
  i.show_series(out);
  i.show_energy(out);
  i.show_throttle(out);
  i.show_course(out);
  for (const auto& [pid, p] : i.processes) {
    out.processes.push_back(p);
    if (const auto it = i.process_utilization.find(pid); it != i.process_utilization.end())
      out.processes.back().utilization_mean_pct = it->second.summary().mean;
  }
  std::ranges::stable_sort(out.processes, std::greater(),
                           [](const ProcessTelemetry& p) { return p.memory_peak_bytes.value_or(-1); });
  return out;
}

namespace {

// Distinct times of a device's rows, ascending.
std::vector<int64_t> row_times(const SampleLog& log, uint32_t device, bool buffered) {
  std::vector<int64_t> times;
  for (const SampleSeries& s : log.series)
    if (s.device == device && (buffered || !may_have_own_rows(s.metric))) {
      const auto middle = static_cast<ptrdiff_t>(times.size());
      times.insert(times.end(), s.time_ns.begin(), s.time_ns.end());
      std::inplace_merge(times.begin(), times.begin() + middle, times.end());
      times.erase(std::unique(times.begin(), times.end()), times.end());
    }
  return times;
}

// Ticks rather than times that the driver buffered, unless the log has hardly anything else.
std::vector<int64_t> tick_times(const SampleLog& log, uint32_t device) {
  std::vector<int64_t> ticks = row_times(log, device, false);
  return ticks.size() > 1 ? ticks : row_times(log, device, true);
}

}  // namespace

SampleLog clipped(const SampleLog& log, int64_t from_ns, int64_t to_ns) {
  SampleLog out;
  out.devices = log.devices;
  out.first_ns = std::max(log.first_ns, from_ns);
  out.last_ns = std::min(log.last_ns, to_ns);
  for (const SampleSeries& s : log.series) {
    const auto begin = std::ranges::lower_bound(s.time_ns, from_ns) - s.time_ns.begin();
    const auto end = std::ranges::upper_bound(s.time_ns, to_ns) - s.time_ns.begin();
    if (begin >= end) continue;
    SampleSeries part{s.device, s.metric, {}, {}};
    part.time_ns.assign(s.time_ns.begin() + begin, s.time_ns.begin() + end);
    part.value.assign(s.value.begin() + begin, s.value.begin() + end);
    out.ticks = std::max<int64_t>(out.ticks, end - begin);
    out.series.push_back(std::move(part));
  }
  for (const SampleLog::ProcessRow& row : log.processes)
    if (row.time_ns >= from_ns && row.time_ns <= to_ns) out.processes.push_back(row);
  return out;
}

std::vector<DeviceTelemetry> summarise(const SampleLog& log) {
  std::vector<DeviceTelemetry> out;
  for (uint32_t d = 0; d < log.devices.size(); ++d) {
    const std::vector<int64_t> times = tick_times(log, d);
    if (times.empty()) continue;
    TelemetryCollector collector(log.devices[d], times.size() > 1 ? median_distance(times) : kOneSampleHolds_ns);
    TelemetryCollector::Impl& impl = *collector.impl_;
    for (int64_t t : times) impl.tick(t);
    // Whole series, one after the other: each has its own clock.
    for (const SampleSeries& s : log.series)
      if (s.device == d)
        for (size_t i = 0; i < s.time_ns.size(); ++i) impl.add_sample({s.time_ns[i], s.metric, s.value[i]});
    for (const SampleLog::ProcessRow& row : log.processes)
      if (row.device == d) impl.add_process(row.process, row.time_ns);
    out.push_back(collector.summary());
    out.back().several_hosts = log.several_hosts();
  }
  return out;
}

}  // namespace profgpu
