#include "watch/top/history.h"

#include <algorithm>
#include <limits>

#include "trace/health.h"

namespace profgpu {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
// A counter that is read in turns with others keeps its rate so long.
constexpr int64_t kRateHolds_ns = 10'000'000'000;
// A point that comes later than this, or so many intervals, says nothing of the time before it.
constexpr int64_t kLate_ns = 2'000'000'000, kLateIntervals = 10;

double or_unknown(const std::optional<double>& x) { return x.value_or(kUnknown); }

}  // namespace

void Curve::add(double value) {
  if (points_.empty() && std::isnan(value)) {
    unknown_ = std::min(unknown_ + 1, kMaxPoints);
    return;
  }
  if (points_.empty()) points_.assign(std::min(unknown_, kMaxPoints - 1), std::nanf(""));
  if (points_.size() < kMaxPoints) {
    points_.push_back(static_cast<float>(value));
    return;
  }
  points_[end_] = static_cast<float>(value);
  end_ = (end_ + 1) % kMaxPoints;
}

std::optional<double> Curve::latest() const {
  if (size() == 0 || std::isnan(back(0))) return std::nullopt;
  return back(0);
}

std::vector<float> columns(const Curve& curve, const Curve& seconds, int64_t width_ns, int cells) {
  std::vector<float> out(static_cast<size_t>(std::max(cells, 0)), std::nanf(""));
  const double width = static_cast<double>(width_ns) * 1e-9;
  double begin = 0, sum = 0, known = 0;   // begin and end: seconds before the newest, going back
  size_t column = 0;
  const auto finish = [&] {
    if (known >= width / 2) out[out.size() - 1 - column] = static_cast<float>(sum / known);
    sum = known = 0;
    ++column;
  };
  for (size_t n = 0; n < curve.size() && column < out.size(); ++n) {
    const double end = begin + static_cast<double>(seconds.back(n));
    for (; column < out.size(); finish()) {
      const auto left = static_cast<double>(column) * width, right = static_cast<double>(column + 1) * width;
      const double part = std::min(end, right) - std::max(begin, left);
      if (part > 0 && !std::isnan(curve.back(n))) sum += part * static_cast<double>(curve.back(n)), known += part;
      if (end < right) break;
    }
    begin = end;
  }
  if (column < out.size()) finish();
  return out;
}

Pace::Step Pace::step(int64_t time_ns, int64_t interval_ns) {
  // The point before may be from when they were further apart.
  const int64_t late_ns = std::max(kLateIntervals * std::max(interval_ns, interval_ns_), kLate_ns);
  const int64_t since_ns = newest_ns_ == 0 ? interval_ns : time_ns - newest_ns_;
  const int64_t known_ns = since_ns > late_ns ? interval_ns : since_ns;
  newest_ns_ = time_ns;
  interval_ns_ = interval_ns;
  return {static_cast<double>(since_ns - known_ns) * 1e-9, static_cast<double>(known_ns) * 1e-9};
}

// What a counter grew by in a second; NaN until it was read twice, and after it went back.
double DeviceHistory::rate(const LiveDevice& device, Metric metric) {
  const auto& value = device.values[static_cast<size_t>(metric)];
  const int64_t at = device.read_ns[static_cast<size_t>(metric)];
  if (!value) return kUnknown;
  Counter& counter = counters_[metric];
  if (counter.at_ns != 0 && at > counter.at_ns) {
    const double grown = *value - counter.value;
    counter.rate = grown >= 0 ? grown * 1e9 / static_cast<double>(at - counter.at_ns) : kUnknown;
  }
  if (at != counter.at_ns) counter.value = *value, counter.at_ns = at;
  return device.time_ns - at < kRateHolds_ns ? counter.rate : kUnknown;
}

// By the device's own counters of nanoseconds, else by what it says at the moment.
double DeviceHistory::held(const LiveDevice& device, std::initializer_list<Metric> counters, uint32_t reasons) {
  double pct = kUnknown;
  for (const Metric m : counters)
    if (const double r = rate(device, m); !std::isnan(r))
      pct = std::max(std::isnan(pct) ? 0 : pct, std::min(r * 1e-7, 100.0));
  const auto now = reason_bits(device.value(Metric::kClockEventReasons));
  if (std::isnan(pct) && now) pct = (*now & reasons) != 0 ? 100 : 0;
  return pct;
}

void DeviceHistory::add_unknown(double seconds) {
  for (Curve& curve : curves_) curve.add(kUnknown);
  seconds_.add(seconds);
}

void DeviceHistory::take(const LiveDevice& device, int64_t now_ns, int64_t interval_ns) {
  const bool silent = device.state != DeviceState::kOk;
  const int64_t time = silent ? now_ns : device.time_ns;
  if (time <= pace_.newest_ns() || (silent && time - pace_.newest_ns() < interval_ns)) return;
  const Pace::Step step = pace_.step(time, interval_ns);
  if (silent) return add_unknown(step.unknown_s + step.seconds);
  if (step.unknown_s > 0) add_unknown(step.unknown_s);
  seconds_.add(step.seconds);
  const auto share = [&](Metric part, Metric all) {
    const auto p = device.value(part), a = device.value(all);
    return p && a && *a > 0 ? 100 * *p / *a : kUnknown;
  };
  const auto first = [&](Metric a, Metric b) {
    return or_unknown(device.value(a) ? device.value(a) : device.value(b));
  };
  const auto speed = [&](Metric counter, Metric gauge) {
    const double r = rate(device, counter);
    return std::isnan(r) ? or_unknown(device.value(gauge)) : r;
  };
  const auto link = [&](Metric a, Metric b) {
    const double r = rate(device, a);
    return std::isnan(r) ? rate(device, b) : r;
  };
  add(Track::kUtilization, or_unknown(device.busy_pct()));
  add(Track::kMemory, share(Metric::kMemoryUsed, Metric::kMemoryTotal));
  add(Track::kPower, first(Metric::kPower, Metric::kPowerInstant));
  add(Track::kTemperature, or_unknown(device.value(Metric::kTemperature)));
  add(Track::kSmClock, first(Metric::kSmClock, Metric::kGraphicsClock));
  add(Track::kMemoryClock, or_unknown(device.value(Metric::kMemoryClock)));
  add(Track::kPcieTx, speed(Metric::kPcieTx, Metric::kPcieTxRate));
  add(Track::kPcieRx, speed(Metric::kPcieRx, Metric::kPcieRxRate));
  add(Track::kLinkTx, link(Metric::kNvlinkTx, Metric::kXgmiTx));
  add(Track::kLinkRx, link(Metric::kNvlinkRx, Metric::kXgmiRx));
  add(Track::kHeldByPower, held(device, {Metric::kThrottlePower, Metric::kThrottleHwPowerBrake},
                                kPowerReasons));
  add(Track::kHeldByHeat,
      held(device, {Metric::kThrottleSwThermal, Metric::kThrottleHwThermal, Metric::kThrottleThermal}, kHeatReasons));
  add(Track::kHeldByOther,
      held(device, {Metric::kThrottleSyncBoost, Metric::kThrottleBoardLimit, Metric::kThrottleReliability},
           bits_of({ClockReason::kSyncBoost, ClockReason::kHwSlowdown})));
  add(Track::kSmActive, or_unknown(device.value(Metric::kSmActive)));
  add(Track::kSmOccupancy, or_unknown(device.value(Metric::kSmOccupancy)));
  add(Track::kTensorActive, or_unknown(device.value(Metric::kTensorActive)));
  add(Track::kDramActive, or_unknown(device.value(Metric::kDramActive)));
}

std::optional<double> DeviceHistory::mean(Track track, int64_t span_ns) const {
  const Curve& values = curve(track);
  double sum = 0, known = 0, left = static_cast<double>(span_ns) * 1e-9;
  const double enough = left / 3;
  for (size_t i = 0; i < values.size() && left > 0; ++i) {
    const double seconds = std::min(static_cast<double>(seconds_.back(i)), left);
    left -= seconds;
    if (const float v = values.back(i); !std::isnan(v)) sum += seconds * static_cast<double>(v), known += seconds;
  }
  return known > 0 && known >= enough ? std::optional(sum / known) : std::nullopt;
}

void HostHistory::take(const HostLoad& load, int64_t interval_ns) {
  if (load.time_ns <= pace.newest_ns()) return;
  const Pace::Step step = pace.step(load.time_ns, interval_ns);
  const auto add = [&](double cpu_pct, double memory_pct, double s) {
    cpu.add(cpu_pct);
    memory.add(memory_pct);
    seconds.add(s);
  };
  if (step.unknown_s > 0) add(kUnknown, kUnknown, step.unknown_s);
  const auto share = load.memory_used_bytes && load.memory_bytes && *load.memory_bytes > 0
                         ? 100 * *load.memory_used_bytes / *load.memory_bytes
                         : kUnknown;
  add(or_unknown(load.cpu_pct), share, step.seconds);
}

const ProcessHistory* Histories::process(const ProcessKey& key) const {
  const auto it = processes_.find(key);
  return it == processes_.end() ? nullptr : &it->second;
}

void Histories::take(const LiveView& view, int64_t interval_ns) {
  devices_.resize(view.devices.size());
  paces_.resize(view.devices.size());
  if (view.hosts.size() == 1) host_.take(view.hosts[0].load, interval_ns);
  std::map<ProcessKey, ProcessHistory> kept;
  for (size_t i = 0; i < view.devices.size(); ++i) {
    const LiveDevice& device = view.devices[i];
    devices_[i].take(device, view.time_ns, interval_ns);
    const bool newer = device.time_ns > paces_[i].newest_ns();
    const Pace::Step step = newer ? paces_[i].step(device.time_ns, interval_ns) : Pace::Step();
    for (const LiveProcess& p : device.processes) {
      if (kept.size() >= kMaxProcesses) break;
      const ProcessKey key{i, p.sample.pid};
      const auto known = processes_.find(key);
      ProcessHistory& history = kept[key];
      if (known != processes_.end()) history = std::move(known->second);
      if (!newer) continue;
      if (step.unknown_s > 0) history.utilization.add(kUnknown), history.seconds.add(step.unknown_s);
      history.utilization.add(or_unknown(p.sample.utilization_pct));
      history.seconds.add(step.seconds);
    }
  }
  processes_ = std::move(kept);
}

}  // namespace profgpu
