// <profgpu/c.h>: monitors, which are profgpu::Monitor.
#include <profgpu/monitor.h>

#include <cmath>
#include <set>

#include "base/text.h"
#include "capi/c_values.h"
#include "capi/ranges.h"
#include "view/json_text.h"

struct profgpu_monitor {
  profgpu::Monitor monitor;
};

namespace profgpu {
namespace {

MonitorOptions options_of(const profgpu_monitor_options* given) {
  profgpu_monitor_options asked{};
  if (given != nullptr) std::memcpy(&asked, given, std::min(given->struct_size, sizeof asked));
  MonitorOptions options;
  options.devices = texts(asked.devices, asked.device_count);
  if (asked.interval_s != 0) options.interval_s = asked.interval_s;
  if (asked.backend.size > 0) options.backend = view(asked.backend);
  options.warmup_s = std::max(0.0, asked.warmup_s);
  options.keep_samples = asked.keep_samples;
  return options;
}

void member(JsonText& json, std::string_view name, const std::optional<double>& value) {
  if (value) json.key(name), json.real(*value);
}

void member(JsonText& json, std::string_view name, const std::map<std::string, double>& values) {
  json.key(name);
  json.open('{', Layout::kInline);
  for (const auto& [key, value] : values) json.key(key), json.real(value);
  json.close('}');
}

void member(JsonText& json, std::string_view name, const std::vector<std::string>& texts) {
  json.key(name);
  json.open('[', Layout::kInline);
  for (const std::string& text : texts) json.element(), json.text(text);
  json.close(']');
}

void write_metrics(JsonText& json, const std::map<std::string, MonitorStatistics>& metrics) {
  json.key("metrics");
  json.open('{');
  for (const auto& [name, s] : metrics) {
    json.key(name);
    json.open('{', Layout::kInline);
    member(json, "mean", s.mean);
    member(json, "stddev", s.stddev);
    member(json, "min", s.min);
    member(json, "max", s.max);
    json.key("samples"), json.integer(s.samples);
    json.key("resolution_s"), json.real(s.resolution_s);
    json.close('}');
  }
  json.close('}');
}

void write_phases(JsonText& json, const std::vector<MonitorPhase>& phases, size_t device) {
  json.key("phases");
  json.open('[');
  for (const MonitorPhase& p : phases) {
    if (p.device != device) continue;
    json.element();
    json.open('{', Layout::kInline);
    json.key("name"), json.text(p.name);
    json.key("count"), json.integer(p.count);
    json.key("duration_s"), json.real(p.duration_s);
    member(json, "utilization_mean_pct", p.utilization_mean_pct);
    member(json, "power_mean_w", p.power_mean_w);
    member(json, "energy_j", p.energy_j);
    member(json, "memory_max_bytes", p.memory_max_bytes);
    json.close('}');
  }
  json.close(']');
}

void write_summary(JsonText& json, const MonitorSummary& s, const std::vector<MonitorPhase>& phases, size_t place) {
  json.open('{');
  json.key("device"), json.text(s.device);
  json.key("name"), json.text(s.name);
  json.key("uuid"), json.text(s.uuid);
  json.key("pci_bus_id"), json.text(s.pci_bus_id);
  json.key("duration_s"), json.real(s.duration_s);
  json.key("interval_s"), json.real(s.interval_s);
  json.key("readings"), json.integer(s.readings);
  write_metrics(json, s.metrics);
  member(json, "counters", s.counters);
  member(json, "constants", s.constants);
  member(json, "utilization_p5", s.utilization_p5);
  member(json, "utilization_p50", s.utilization_p50);
  member(json, "utilization_p95", s.utilization_p95);
  member(json, "utilization_p99", s.utilization_p99);
  member(json, "idle_pct", s.idle_pct);
  member(json, "active_pct", s.active_pct);
  member(json, "busy_s", s.busy_s);
  member(json, "energy_j", s.energy_j);
  json.key("energy_method"), json.text(s.energy_method);
  member(json, "throttle_pct", s.throttle_pct);
  member(json, "memory_growth_bytes_per_s", s.memory_growth_bytes_per_s);
  json.key("trace");
  json.open('[', Layout::kInline);
  for (const double x : s.trace) json.element(), json.real(x);   // NaN is null
  json.close(']');
  member(json, "notes", s.notes);
  member(json, "troubles", s.troubles);
  write_phases(json, phases, place);
  json.close('}');
}

std::unique_ptr<profgpu_table> table_of(const std::vector<MonitorSample>& samples) {
  std::set<std::string> metrics;
  for (const MonitorSample& s : samples)
    for (const auto& [name, value] : s.values) metrics.insert(name);
  std::vector<std::string> names = {"t_s", "time_ns", "device"};
  names.insert(names.end(), metrics.begin(), metrics.end());
  std::vector<ColumnValues> columns(names.size());
  columns[0] = ColumnValues(Datum::Kind::kReal);
  columns[1] = columns[2] = ColumnValues(Datum::Kind::kInteger);
  for (size_t i = 3; i < columns.size(); ++i) columns[i] = ColumnValues(Datum::Kind::kReal);
  for (const MonitorSample& s : samples) {
    columns[0].add(s.t_s);
    columns[1].add(s.time_ns);
    columns[2].add(s.device);
    for (size_t i = 3; i < columns.size(); ++i) {
      const auto at = s.values.find(names[i]);
      columns[i].add(at != s.values.end() ? Datum(at->second) : Datum());
    }
  }
  return finished_table(std::move(names), std::move(columns));
}

}  // namespace
}  // namespace profgpu

using namespace profgpu;

extern "C" {

profgpu_monitor* profgpu_monitor_open(const profgpu_monitor_options* options) {
  return new profgpu_monitor{Monitor(options_of(options))};
}

profgpu_string profgpu_monitor_problem(const profgpu_monitor* monitor) {
  return borrowed(monitor != nullptr ? std::string_view(monitor->monitor.problem()) : "there is no monitor");
}

void profgpu_monitor_start(profgpu_monitor* monitor) {
  if (monitor == nullptr) return;
  monitor->monitor.start();
  follow_ranges(monitor->monitor);
}

void profgpu_monitor_mark(profgpu_monitor* monitor, profgpu_string name) {
  if (monitor != nullptr) monitor->monitor.mark(std::string(view(name)));
}

void profgpu_monitor_stop(profgpu_monitor* monitor) {
  if (monitor == nullptr) return;
  unfollow_ranges(monitor->monitor);
  monitor->monitor.stop();
}

profgpu_text* profgpu_monitor_summary(const profgpu_monitor* monitor) {
  if (monitor == nullptr) return nullptr;
  const std::vector<MonitorSummary> devices = monitor->monitor.summary();
  const std::vector<MonitorPhase> phases = monitor->monitor.phases();
  JsonText json;
  json.open('[');
  for (size_t i = 0; i < devices.size(); ++i) json.element(), write_summary(json, devices[i], phases, i);
  json.close(']');
  return new profgpu_text{json.take()};
}

profgpu_text* profgpu_monitor_summary_text(const profgpu_monitor* monitor) {
  if (monitor == nullptr) return nullptr;
  std::string text;
  for (const MonitorSummary& device : monitor->monitor.summary()) append_listed(text, device.text(), "\n");
  return new profgpu_text{std::move(text)};
}

profgpu_table* profgpu_monitor_samples(const profgpu_monitor* monitor) {
  return monitor != nullptr ? table_of(monitor->monitor.samples()).release() : nullptr;
}

void profgpu_monitor_free(profgpu_monitor* monitor) {
  if (monitor != nullptr) unfollow_ranges(monitor->monitor);
  delete monitor;
}
}
