#include <profgpu/monitor.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

#include "analyse/rank/telemetry.h"
#include "analyse/report/quantity.h"
#include "base/clock.h"
#include "base/steady_unix.h"
#include "capi/phase_totals.h"
#include "devices/backend.h"
#include "devices/sampler.h"
#include "devices/selection.h"
#include "trace/sample.h"

namespace profgpu {

namespace {

MonitorDevice public_device(const DeviceInfo& d) {
  return {d.label(), d.name, d.vendor, d.uuid, d.pci_bus_id, d.driver_version, d.constant(Metric::kMemoryTotal)};
}

double seconds(int64_t ns) { return static_cast<double>(ns) / 1e9; }

MonitorSummary public_summary(const DeviceTelemetry& t) {
  MonitorSummary out;
  out.device = t.device.label();
  out.name = t.device.name;
  out.uuid = t.device.uuid;
  out.pci_bus_id = t.device.pci_bus_id;
  out.duration_s = seconds(t.duration_ns());
  out.interval_s = seconds(t.interval_ns);
  out.readings = t.ticks;
  for (const auto& [metric, s] : t.series)
    out.metrics[std::string(metric_info(metric).name)] = {s.mean, s.stddev,  s.min,
                                                          s.max,  s.samples, seconds(s.resolution_ns)};
  for (const auto& [metric, value] : t.grown) out.counters[std::string(metric_info(metric).name)] = value;
  for (const auto& [metric, value] : t.constants) out.constants[std::string(metric_info(metric).name)] = value;
  out.utilization_p5 = t.utilization_p5;
  out.utilization_p50 = t.utilization_p50;
  out.utilization_p95 = t.utilization_p95;
  out.utilization_p99 = t.utilization_p99;
  out.idle_pct = t.idle_pct;
  out.active_pct = t.active_pct;
  if (t.busy_ns) out.busy_s = seconds(*t.busy_ns);
  out.energy_j = t.energy_j;
  out.energy_method = t.energy_method;
  for (const ThrottleTime& r : t.throttle) out.throttle_pct[r.reason] = r.pct;
  out.memory_growth_bytes_per_s = t.memory_growth_bytes_per_s;
  out.trace = t.trace;
  out.notes = t.notes;
  if (!t.energy_note.empty()) out.notes.push_back("energy: " + t.energy_note);
  return out;
}

MonitorPhase public_phase(const std::string& name, size_t device, const PhaseTotals::Total& t) {
  MonitorPhase p{name, device, t.count, seconds(t.time_ns), {}, {}, t.energy_j, t.memory_max_bytes};
  if (t.utilization_ns > 0) p.utilization_mean_pct = t.utilization_area / t.utilization_ns;
  if (t.power_ns > 0) p.power_mean_w = t.power_area / t.power_ns;
  return p;
}

/// A sample as it is kept: a name for each value would take more than the values.
struct KeptSample {
  double t_s;
  int64_t time_ns;
  size_t device;
  std::vector<Sample> values;
  int64_t utilization_ns;   // Unix time of the newest; 0: none yet
};

MonitorSample public_sample(const KeptSample& kept) {
  MonitorSample sample{kept.t_s, kept.time_ns, kept.device, {}, {}};
  if (kept.utilization_ns != 0)
    sample.age_s = seconds(std::max<int64_t>(kept.time_ns - kept.utilization_ns, 0));
  for (const Sample& s : kept.values) sample.values[std::string(metric_info(s.metric).name)] = s.value;
  return sample;
}

}  // namespace

struct [[gnu::visibility("hidden")]] Monitor::Impl {
  explicit Impl(MonitorOptions o) : options(std::move(o)) { open(); }

  void open();
  void begin(std::shared_ptr<Sampler> fresh);
  void take(const Reading& reading);
  void mark(const std::string& name, bool goes_on);
  [[nodiscard]] size_t position(uint32_t device) const;

  MonitorOptions options;
  std::string problem;
  std::shared_ptr<Backend> backend;
  std::vector<uint32_t> watched;          // the backend's positions
  std::vector<MonitorDevice> devices;

  std::mutex control;                     // start() and stop(), which wait for the workers; taken before the other
  mutable std::mutex mutex;               // everything below
  std::shared_ptr<Sampler> sampler;
  int64_t started_ns = 0;
  bool running = false;
  std::vector<TelemetryCollector> collectors;
  std::vector<PhaseTotals> phases;
  bool in_step = false;
  std::vector<int64_t> utilization_ns;    // Unix time of the newest
  std::deque<KeptSample> kept;
};

void Monitor::Impl::open() {
  if (!(options.interval_s >= 0.001 && options.interval_s <= 86400)) {
    problem = "interval_s must lie between 0.001 and 86400";
    return;
  }
  BackendOptions asked;
  asked.interval_ns = std::llround(options.interval_s * 1e9);
  auto opened = open_backend(options.backend, asked);
  if (!opened) {
    problem = opened.error().message;
    return;
  }
  if (!opened->backend) {
    problem = "no device can be watched";
    for (const Tried& t : opened->tried) problem += fmt::format("; {}: {}", t.backend, t.error.message);
    return;
  }
  auto selected = select_devices(opened->backend->devices(), options.devices);
  if (!selected) {
    problem = selected.error().message + "; " + selected.error().hint;
    return;
  }
  backend = opened->backend;
  watched = selected->devices;
  for (uint32_t d : watched) devices.push_back(public_device(backend->devices()[d]));
  if (watched.empty()) problem = selected->note + " leaves no device";
}

size_t Monitor::Impl::position(uint32_t device) const {
  size_t i = 0;
  while (watched[i] != device) ++i;
  return i;
}

void Monitor::Impl::begin(std::shared_ptr<Sampler> fresh) {
  const int64_t interval = std::llround(options.interval_s * 1e9);
  std::lock_guard lock(mutex);
  sampler = std::move(fresh);
  started_ns = steady_unix_ns();
  running = true;
  kept.clear();
  collectors.clear();
  phases.assign(watched.size(), {});
  in_step = false;
  utilization_ns.assign(watched.size(), 0);
  for (uint32_t d : watched)
    collectors.emplace_back(backend->devices()[d], interval, std::llround(options.warmup_s * 1e9));
}

void Monitor::Impl::take(const Reading& reading) {
  const size_t i = position(reading.device);
  KeptSample sample;
  {
    std::lock_guard lock(mutex);
    collectors[i].add(reading);
    phases[i].add(reading);
    for (const Sample& s : reading.samples)
      if (s.metric == Metric::kUtilization) utilization_ns[i] = std::max(utilization_ns[i], s.time_ns);
    if (options.keep_samples == 0 && !options.on_tick) return;
    sample = {
        seconds(reading.time_ns - started_ns), reading.time_ns, i, {reading.samples.begin(), reading.samples.end()},
        utilization_ns[i]};
    if (options.keep_samples > 0) {
      kept.push_back(sample);
      if (kept.size() > options.keep_samples) kept.pop_front();
    }
  }
  if (options.on_tick) options.on_tick(public_sample(sample));
}

Monitor::Monitor(MonitorOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Monitor::~Monitor() {
  if (impl_) stop();
}
Monitor::Monitor(Monitor&&) noexcept = default;
Monitor& Monitor::operator=(Monitor&& other) noexcept {
  if (impl_) stop();
  impl_ = std::move(other.impl_);
  return *this;
}

const std::string& Monitor::problem() const { return impl_->problem; }
const std::vector<MonitorDevice>& Monitor::devices() const { return impl_->devices; }

void Monitor::start() {
  Impl& i = *impl_;
  std::lock_guard control(i.control);
  if (i.watched.empty() || i.running) return;
  SamplerOptions options;
  options.interval_ns = std::llround(i.options.interval_s * 1e9);
  options.devices = i.watched;
  i.begin(std::make_shared<Sampler>(i.backend, options, [impl = &i](const Reading& r) { impl->take(r); }));
  i.sampler->start();
}

void Monitor::Impl::mark(const std::string& name, bool goes_on) {
  std::lock_guard lock(mutex);
  if (!running) return;
  const int64_t now = steady_unix_ns();
  for (PhaseTotals& p : phases) p.mark(now, name, goes_on, in_step);
}

void Monitor::mark(const std::string& name) { impl_->mark(name, false); }
void Monitor::go_on(const std::string& name) { impl_->mark(name, true); }

void Monitor::within_step(bool is_within) {
  std::lock_guard lock(impl_->mutex);
  if (is_within && !impl_->in_step && impl_->running)
    for (PhaseTotals& p : impl_->phases) p.begin_step();
  impl_->in_step = is_within;
}

void Monitor::stop() {
  Impl& i = *impl_;
  std::lock_guard control(i.control);
  if (!i.running) return;
  i.sampler->stop();
  std::lock_guard lock(i.mutex);
  i.running = false;
  const int64_t now = steady_unix_ns();
  for (PhaseTotals& p : i.phases) p.end(now);
}

std::vector<MonitorSummary> Monitor::summary() const {
  std::lock_guard lock(impl_->mutex);
  std::vector<MonitorSummary> out;
  for (const TelemetryCollector& c : impl_->collectors) out.push_back(public_summary(c.summary()));
  if (impl_->sampler)
    for (const DeviceTrouble& t : impl_->sampler->troubles()) {
      MonitorSummary& device = out[impl_->position(t.device)];
      device.notes.push_back(t.message);
      device.troubles.push_back(t.message);
    }
  return out;
}

std::vector<MonitorPhase> Monitor::phases() const {
  std::lock_guard lock(impl_->mutex);
  std::vector<MonitorPhase> out;
  for (size_t d = 0; d < impl_->phases.size(); ++d)
    for (const auto& [name, t] : impl_->phases[d].totals()) out.push_back(public_phase(name, d, t));
  return out;
}

std::vector<MonitorPhase> Monitor::steps() const {
  std::lock_guard lock(impl_->mutex);
  std::vector<MonitorPhase> out;
  for (size_t d = 0; d < impl_->phases.size(); ++d)
    if (const PhaseTotals::Total t = impl_->phases[d].steps(); t.count > 0) out.push_back(public_phase("step", d, t));
  return out;
}

std::vector<MonitorSample> Monitor::samples() const {
  std::lock_guard lock(impl_->mutex);
  std::vector<MonitorSample> out;
  for (const KeptSample& kept : impl_->kept) out.push_back(public_sample(kept));
  return out;
}

std::string MonitorSummary::text() const {
  const auto find = [&](const char* metric) {
    auto it = metrics.find(metric);
    return it == metrics.end() ? MonitorStatistics{} : it->second;
  };
  std::string out =
      fmt::format("GPU {}  {}  {}, {} readings", device, name, format_duration(duration_s * 1e9), readings);
  if (const auto s = find("utilization_pct"); s.mean)
    out += fmt::format("\n  busy    {}   p50 {:.0f}   p95 {:.0f}   idle {:.0f} % of the time", format_percent(*s.mean),
                       utilization_p50.value_or(0), utilization_p95.value_or(0), idle_pct.value_or(0));
  if (const auto s = find("memory_used_bytes"); s.max)
    out += fmt::format("\n  memory  {} at most, mean {}", format_bytes(*s.max), format_bytes(*s.mean));
  if (const auto s = find("power_w"); s.mean)
    out += fmt::format("\n  power   {:.0f} W mean, {:.0f} W at most", *s.mean, *s.max);
  if (energy_j) out += fmt::format("\n  energy  {:.1f} J ({})", *energy_j, energy_method);
  for (const auto& [reason, pct] : throttle_pct)
    out += fmt::format("\n  clocks  held back {} of the time: {}", format_percent(pct), reason);
  return out;
}

}  // namespace profgpu
