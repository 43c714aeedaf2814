#include "analyse/rank/telemetry.h"

#include <algorithm>
#include <cmath>

#include "analyse/report/document.h"

namespace profgpu {
namespace {

constexpr double kMiB = 1 << 20, kSecond = 1e9;

std::optional<double> scaled(const std::optional<double>& x, double unit) {
  return x ? std::optional(*x / unit) : std::nullopt;
}
double seconds(int64_t ns) { return static_cast<double>(ns) / kSecond; }

// Counters and bytes are whole numbers: JSON without exponents.
Value whole_where_it_is(const std::optional<double>& x) {
  if (!x) return {};
  return std::abs(*x) < 9e15 && *x == std::floor(*x) ? Value(static_cast<int64_t>(*x)) : Value(*x);
}

void add_summary(Record& r, const DeviceTelemetry& t) {
  const SeriesSummary util = t.summary(Metric::kUtilization), memory = t.summary(Metric::kMemoryUsed),
                      power = t.power();
  const SeriesSummary temperature = t.summary(Metric::kTemperature), clock = t.summary(Metric::kSmClock);
  r.add("device", t.device.index).add("name", unless_empty(t.device.name));
  r.add("duration_s", seconds(t.wall_ns.value_or(t.duration_ns())));
  r.add("interval_s", seconds(t.interval_ns)).add("n_samples", t.ticks);
  r.add("util_gpu_mean", util.mean).add("util_gpu_std", util.stddev).add("util_gpu_min", util.min);
  r.add("util_gpu_max", util.max).add("util_gpu_p5", t.utilization_p5).add("util_gpu_p50", t.utilization_p50);
  r.add("util_gpu_p95", t.utilization_p95).add("util_gpu_p99", t.utilization_p99);
  r.add("idle_pct", t.idle_pct).add("active_pct", t.active_pct);
  r.add("util_mem_mean", t.summary(Metric::kMemoryUtilization).mean);
  r.add("mem_used_mean_mb", scaled(memory.mean, kMiB)).add("mem_used_max_mb", scaled(memory.max, kMiB));
  r.add("mem_total_mb", scaled(t.limit(Metric::kMemoryTotal), kMiB)).add("mem_util_pct", t.memory_peak_pct());
  r.add("power_mean_w", power.mean).add("power_max_w", power.max).add("energy_j", t.energy_j);
  r.add("temp_mean_c", temperature.mean).add("temp_max_c", temperature.max);
  r.add("sm_clock_mean_mhz", clock.mean).add("sm_clock_max_mhz", clock.max);
  r.add("busy_time_est_s", t.busy_ns ? Value(seconds(*t.busy_ns)) : Value());
  r.add("sparkline", unless_empty(sparkline(t.trace))).add("notes", unless_empty(t.notes_text()));
}

void add_identity(Record& r, const DeviceTelemetry& t) {
  r.add("label", t.device_label()).add("vendor", unless_empty(t.device.vendor));
  r.add("uuid", unless_empty(t.device.uuid)).add("pci_bus_id", unless_empty(t.device.pci_bus_id));
  r.add("driver_version", unless_empty(t.device.driver_version)).add("mig_profile", unless_empty(t.device.mig_profile));
  r.add("host", unless_empty(t.device.host));
  r.add("first_ns", t.first_ns).add("last_ns", t.last_ns).add("watched_ns", t.duration_ns()).add("used", t.used());
}

Value trace_value(const std::vector<double>& trace) {
  List out;
  for (const double x : trace) out.push_back(only_if(!std::isnan(x), x));
  return out;
}

Value metrics_value(const DeviceTelemetry& t) {
  Table table{{"metric", "unit", "mean", "stddev", "min", "max", "first", "last", "samples", "resolution_ns"}, {}};
  for (const auto& [metric, s] : t.series) {
    const MetricInfo& info = metric_info(metric);
    table.rows.push_back({info.name, info.unit, s.mean, s.stddev, whole_where_it_is(s.min), whole_where_it_is(s.max),
                          whole_where_it_is(s.first), whole_where_it_is(s.last), s.samples,
                          only_if(s.resolution_ns > 0, s.resolution_ns)});
  }
  return table;
}

Value named_values(const std::map<Metric, double>& values) {
  Record out;
  for (const auto& [metric, x] : values) out.add(std::string(metric_info(metric).name), whole_where_it_is(x));
  return out;
}

Value absent_value(const DeviceTelemetry& t) {
  Table table{{"metric", "reason"}, {}};
  for (const MetricInfo& m : metrics()) {
    const auto why = t.why_absent.find(m.metric);
    if (!t.has(m.metric)) table.rows.push_back({m.name, why != t.why_absent.end() ? Value(why->second) : Value()});
  }
  return table;
}

}  // namespace

std::string sparkline(const std::vector<double>& percentages) {
  static constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string out;
  for (const double x : percentages)
    out += std::isnan(x) ? " " : kBlocks[static_cast<size_t>(std::clamp(x / 100 * 8, 0.0, 7.0))];
  return out;
}

Record telemetry_record(const DeviceTelemetry& t) {
  Record r;
  add_summary(r, t);
  add_identity(r, t);
  r.add("energy_method", unless_empty(t.energy_method)).add("energy_integrated_j", t.energy_integrated_j);
  r.add("energy_note", unless_empty(t.energy_note)).add("energy_per_busy_second_j", t.energy_per_busy_second_j());
  r.add("throttle", t.throttle_known ? value_of(t.throttle) : Value());
  r.add("idle_gaps", t.idle_gaps.count > 0 ? value_of(t.idle_gaps) : Value());
  for (const auto& [name, metric] : {std::pair{"pcie_tx_bytes", Metric::kPcieTx}, {"pcie_rx_bytes", Metric::kPcieRx},
                                     {"nvlink_tx_bytes", Metric::kNvlinkTx}, {"nvlink_rx_bytes", Metric::kNvlinkRx},
                                     {"xgmi_tx_bytes", Metric::kXgmiTx}, {"xgmi_rx_bytes", Metric::kXgmiRx}})
    r.add(name, whole_where_it_is(t.growth(metric)));
  r.add("memory_growth_bytes_per_s", t.memory_growth_bytes_per_s);
  r.add("utilization_trace", trace_value(t.trace)).add("trace_column_ns", t.trace_column_ns());
  r.add("processes", value_of(t.processes)).add("metrics", metrics_value(t));
  r.add("counters", named_values(t.grown)).add("constants", named_values(t.constants));
  r.add("absent", absent_value(t));
  return r;
}

}  // namespace profgpu
