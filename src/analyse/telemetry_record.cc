#include "analyse/telemetry_record.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace profgpu {
namespace {

constexpr double kMiB = 1 << 20, kSecond = 1e9;

std::optional<double> scaled(const std::optional<double>& x, double unit) {
  return x ? std::optional(*x / unit) : std::nullopt;
}

Value text_or_null(const std::string& text) { return text.empty() ? Value() : Value(text); }

// Counters and bytes are whole: JSON without an exponent.
Value whole_where_it_is(double x) {
  return std::abs(x) < 9e15 && x == std::floor(x) ? Value(static_cast<int64_t>(x)) : Value(x);
}
Value whole_where_it_is(const std::optional<double>& x) { return x ? whole_where_it_is(*x) : Value(); }

SeriesSummary of(const DeviceTelemetry& t, Metric metric) {
  const SeriesSummary* s = t.find(metric);
  return s ? *s : SeriesSummary();
}

Value grown(const DeviceTelemetry& t, Metric metric) {
  auto it = t.grown.find(metric);
  return it == t.grown.end() ? Value() : whole_where_it_is(it->second);
}

std::string notes_text(const DeviceTelemetry& t) {
  std::string out = joined(t.notes, "; ");
  return out;
}

std::optional<double> busy_s(const DeviceTelemetry& t) {
  return t.busy_ns ? std::optional(static_cast<double>(*t.busy_ns) / kSecond) : std::nullopt;
}

void add_summary(Record& r, const DeviceTelemetry& t, const TelemetryContext& context) {
  const SeriesSummary util = of(t, Metric::kUtilization), memory = of(t, Metric::kMemoryUsed);
  const SeriesSummary power = of(t, t.find(Metric::kPower) ? Metric::kPower : Metric::kPowerInstant);
  const SeriesSummary temperature = of(t, Metric::kTemperature), clock = of(t, Metric::kSmClock);
  r.add("device", t.device.index).add("name", text_or_null(t.device.name));
  r.add("duration_s", static_cast<double>(context.wall_ns.value_or(t.duration_ns())) / kSecond);
  r.add("interval_s", static_cast<double>(t.interval_ns) / kSecond).add("n_samples", t.ticks);
  r.add("util_gpu_mean", util.mean).add("util_gpu_std", util.stddev).add("util_gpu_min", util.min);
  r.add("util_gpu_max", util.max).add("util_gpu_p5", t.utilization_p5).add("util_gpu_p50", t.utilization_p50);
  r.add("util_gpu_p95", t.utilization_p95).add("util_gpu_p99", t.utilization_p99);
  r.add("idle_pct", t.idle_pct).add("active_pct", t.active_pct);
  r.add("util_mem_mean", of(t, Metric::kMemoryUtilization).mean);
  r.add("mem_used_mean_mb", scaled(memory.mean, kMiB)).add("mem_used_max_mb", scaled(memory.max, kMiB));
  r.add("mem_total_mb", scaled(t.limit(Metric::kMemoryTotal), kMiB)).add("mem_util_pct", t.memory_peak_pct());
  r.add("power_mean_w", power.mean).add("power_max_w", power.max).add("energy_j", t.energy_j);
  r.add("temp_mean_c", temperature.mean).add("temp_max_c", temperature.max);
  r.add("sm_clock_mean_mhz", clock.mean).add("sm_clock_max_mhz", clock.max);
  r.add("busy_time_est_s", busy_s(t));
  r.add("sparkline", text_or_null(sparkline(t.trace))).add("notes", text_or_null(notes_text(t)));
}

void add_identity(Record& r, const DeviceTelemetry& t) {
  r.add("label", t.device_label()).add("vendor", text_or_null(t.device.vendor));
  r.add("uuid", text_or_null(t.device.uuid)).add("pci_bus_id", text_or_null(t.device.pci_bus_id));
  r.add("driver_version", text_or_null(t.device.driver_version)).add("mig_profile", text_or_null(t.device.mig_profile));
  r.add("host", text_or_null(t.device.host));
  r.add("first_ns", t.first_ns).add("last_ns", t.last_ns).add("watched_ns", t.duration_ns()).add("used", t.used());
}

void add_energy(Record& r, const DeviceTelemetry& t) {
  r.add("energy_method", text_or_null(t.energy_method)).add("energy_integrated_j", t.energy_integrated_j);
  r.add("energy_note", text_or_null(t.energy_note));
  r.add("energy_per_busy_second_j", t.energy_per_busy_second_j());
}

Value throttle_value(const DeviceTelemetry& t) {
  if (!t.throttle_known) return {};
  Table table{{"reason", "words", "time_ns", "pct", "method"}, {}};
  for (const ThrottleTime& h : t.throttle) table.rows.push_back({h.reason, h.words, h.time_ns, h.pct, h.method});
  return table;
}

Value gaps_value(const IdleGaps& gaps) {
  if (gaps.count == 0) return {};
  return Record()
      .add("count", gaps.count)
      .add("mean_ns", gaps.mean_ns)
      .add("period_ns", gaps.period_ns)
      .add("regular", gaps.regular);
}

Value processes_value(const DeviceTelemetry& t) {
  Table table{{"pid", "name", "type", "memory_peak_bytes", "utilization_mean_pct", "utilization_max_pct", "first_ns",
               "last_ns"},
              {}};
  for (const ProcessTelemetry& p : t.processes)
    table.rows.push_back({p.process.pid, text_or_null(p.process.name), std::string(1, p.process.type),
                          p.memory_peak_bytes, p.utilization_mean_pct, p.utilization_max_pct, p.first_ns, p.last_ns});
  return table;
}

Value trace_value(const std::vector<double>& trace) {
  List out;
  for (const double x : trace) out.push_back(std::isnan(x) ? Value() : Value(x));
  return out;
}

Value metrics_value(const DeviceTelemetry& t) {
  Table table{{"metric", "unit", "mean", "stddev", "min", "max", "first", "last", "samples", "resolution_ns"}, {}};
  for (const auto& [metric, s] : t.series) {
    const MetricInfo& info = metric_info(metric);
    table.rows.push_back({info.name, info.unit, s.mean, s.stddev, whole_where_it_is(s.min), whole_where_it_is(s.max),
                          whole_where_it_is(s.first), whole_where_it_is(s.last), s.samples,
                          s.resolution_ns > 0 ? Value(s.resolution_ns) : Value()});
  }
  return table;
}

Value named_values(const std::map<Metric, double>& values) {
  Record out;
  for (const auto& [metric, x] : values) out.add(std::string(metric_info(metric).name), whole_where_it_is(x));
  return out;
}

Value absent_value(const DeviceTelemetry& t, const TelemetryContext& context) {
  Table table{{"metric", "reason"}, {}};
  for (const MetricInfo& m : metrics()) {
    if (t.series.contains(m.metric) || t.grown.contains(m.metric) || t.constants.contains(m.metric)) continue;
    const std::string why = context.why_absent ? context.why_absent(m.metric) : "";
    table.rows.push_back({m.name, text_or_null(why)});
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

Record telemetry_record(const DeviceTelemetry& t, const TelemetryContext& context) {
  Record r;
  add_summary(r, t, context);
  add_identity(r, t);
  add_energy(r, t);
  r.add("throttle", throttle_value(t)).add("idle_gaps", gaps_value(t.idle_gaps));
  r.add("pcie_tx_bytes", grown(t, Metric::kPcieTx)).add("pcie_rx_bytes", grown(t, Metric::kPcieRx));
  r.add("nvlink_tx_bytes", grown(t, Metric::kNvlinkTx)).add("nvlink_rx_bytes", grown(t, Metric::kNvlinkRx));
  r.add("xgmi_tx_bytes", grown(t, Metric::kXgmiTx)).add("xgmi_rx_bytes", grown(t, Metric::kXgmiRx));
  r.add("memory_growth_bytes_per_s", t.memory_growth_bytes_per_s);
  r.add("utilization_trace", trace_value(t.trace));
  const auto parts = static_cast<int64_t>(t.trace.size());
  r.add("trace_column_ns", parts > 0 ? Value(t.duration_ns() / parts) : Value());
  r.add("processes", processes_value(t)).add("metrics", metrics_value(t));
  r.add("counters", named_values(t.grown)).add("constants", named_values(t.constants));
  r.add("absent", absent_value(t, context));
  return r;
}

}  // namespace profgpu
