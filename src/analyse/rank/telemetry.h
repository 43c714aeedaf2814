// Telemetry: statistics of device samples over a run. Samples come one by one, so that memory does not grow with the
// run; a log in a file goes through the same code.
//
// Statistics are weighted by time: a value holds until the next of its series, but at most for ten intervals (after
// that it is unknown), and the last value for one interval. For evenly spaced samples these are the plain mean, NumPy's
// percentiles and the population's standard deviation, as in the Python package.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyse/report/document.h"
#include "analyse/report/report.h"
#include "trace/sample.h"

namespace profgpu {

/// Statistics of one series over time. Unknown without samples.
struct SeriesSummary {
  std::optional<double> mean, stddev, min, max, first, last;
  int64_t samples = 0;
  int64_t resolution_ns = 0;   ///< median distance between samples; 0: fewer than two
};

/// How long one reason reduced clocks.
struct ThrottleTime {
  std::string reason;          ///< "sw_power_cap" as in clock_reasons()
  std::string words;           ///< "the power limit"
  uint32_t bits = 0;           ///< of ClockReason; 0: none
  int64_t time_ns = 0;
  double pct = 0;              ///< of the sampled time
  std::string method;          ///< "counter" or "sampled"

  void fields(auto&& v) const {
    v("reason", reason), v("words", words), v("time_ns", time_ns), v("pct", pct), v("method", method);
  }
};

/// Idle times (under 5 %) of a device between busy times.
struct IdleGaps {
  int64_t count = 0;
  int64_t mean_ns = 0;         ///< mean length
  int64_t period_ns = 0;       ///< mean distance from start to start
  bool regular = false;        ///< at least four, whose distances differ by less than a quarter

  void fields(auto&& v) const {
    v("count", count), v("mean_ns", mean_ns), v("period_ns", period_ns), v("regular", regular);
  }
};

struct ProcessTelemetry {
  ProcessSample process;                       ///< as last seen
  std::optional<int64_t> memory_peak_bytes;
  std::optional<double> utilization_mean_pct, utilization_max_pct;
  int64_t first_ns = 0, last_ns = 0;           ///< Unix time seen

  void fields(auto&& v) const {
    v("pid", process.pid), v("name", unless_empty(process.name)), v("type", std::string(1, process.type));
    v("memory_peak_bytes", memory_peak_bytes), v("utilization_mean_pct", utilization_mean_pct);
    v("utilization_max_pct", utilization_max_pct), v("first_ns", first_ns), v("last_ns", last_ns);
  }
};

/// One device over a run.
struct DeviceTelemetry {
  DeviceInfo device;
  bool several_hosts = false;                  ///< there are devices of other hosts as well
  int64_t first_ns = 0, last_ns = 0;           ///< Unix time, without warm-up
  int64_t interval_ns = 0;                     ///< as requested, or the median distance of a log's rows
  int64_t ticks = 0;                           ///< readings
  std::optional<int64_t> wall_ns;              ///< duration of the command that was watched; none: no command
  [[nodiscard]] int64_t duration_ns() const { return last_ns - first_ns; }

  std::map<Metric, SeriesSummary> series;      ///< gauges
  std::map<Metric, double> grown;              ///< counters: increase, corrected for wraps and resets
  std::map<Metric, double> constants;          ///< limits and maxima
  std::map<Metric, std::string> why_absent;    ///< of metrics in none of these; only reasons that the backend reports

  // Utilization in percent.
  std::optional<double> utilization_p5, utilization_p50, utilization_p95, utilization_p99;
  std::optional<double> idle_pct, active_pct;  ///< of the time: utilization under 5 %, from 50 %
  int64_t known_ns = 0;                        ///< time with known utilization
  std::optional<int64_t> busy_ns;              ///< mean utilization times known_ns; unknown if that is 0
  IdleGaps idle_gaps;

  std::optional<double> energy_j;
  int64_t energy_ns = 0;                       ///< the time that it covers
  std::string energy_method;                   ///< "counter", "integrated"; empty: unknown
  std::optional<double> energy_integrated_j;   ///< also if energy_j is the counter's
  /// Energy per second of work.
  [[nodiscard]] std::optional<double> energy_per_busy_second_j() const;
  std::string energy_note;  ///< "too short for the sensor", "counter and power differ by 7 %"; empty: none

  std::vector<ThrottleTime> throttle;          ///< longest first; only active reasons
  bool throttle_known = false;                 ///< counters or reasons were sampled
  std::map<uint32_t, double> sampled_pct = {}; ///< by bits of ClockReason: of the time that samples show any of them
  /// Percent of the time that any of these reasons (bits of ClockReason) held: at least, where only counters of each
  /// reason tell, since several may hold at once. None: unknown.
  [[nodiscard]] std::optional<double> throttled_pct(uint32_t reasons) const;
  /// Theil–Sen slope of the lowest use in each of 32 parts of the time, over the whole time or its second half,
  /// whichever is closer to 0: memory that only grows while a job starts does not count. Unknown for less than half a
  /// minute.
  std::optional<double> memory_growth_bytes_per_s;
  std::vector<double> trace;  ///< mean utilization in each of 40 equal parts of the time; NaN: unknown
  std::vector<ProcessTelemetry> processes;     ///< by peak memory
  std::vector<std::string> notes;

  [[nodiscard]] const SeriesSummary* find(Metric metric) const;
  /// The same, empty if there is none.
  [[nodiscard]] SeriesSummary summary(Metric metric) const;
  /// A counter's increase.
  [[nodiscard]] std::optional<double> growth(Metric metric) const;
  /// The board's average if it has one, else instantaneous readings.
  [[nodiscard]] SeriesSummary power() const {
    return summary(find(Metric::kPower) ? Metric::kPower : Metric::kPowerInstant);
  }
  [[nodiscard]] bool has(Metric metric) const {
    return series.contains(metric) || grown.contains(metric) || constants.contains(metric);
  }
  [[nodiscard]] std::string notes_text() const;
  /// Length of one part of `trace`.
  [[nodiscard]] std::optional<int64_t> trace_column_ns() const;
  /// From constants, else the device's own, else a gauge's last value.
  [[nodiscard]] std::optional<double> limit(Metric metric) const;
  /// Highest memory use, in percent of the total.
  [[nodiscard]] std::optional<double> memory_peak_pct() const;
  /// Mean utilization by the driver, else by the chip's counters; none: neither was sampled.
  [[nodiscard]] std::optional<double> busy_pct() const;
  /// Whether anything ran on it, or held memory for a process.
  [[nodiscard]] bool used() const;
  /// "0", "0:7" for a MIG instance, "0 of node-b" where there are several hosts.
  [[nodiscard]] std::string device_label() const { return several_hosts ? device.label_on_host() : device.label(); }
  [[nodiscard]] std::string label() const { return "GPU " + device_label(); }
};

/// Collects samples of one device, in about 70 kB. Not thread-safe, including summary().
class TelemetryCollector {
 public:
  TelemetryCollector(DeviceInfo device, int64_t interval_ns, int64_t warmup_ns = 0);
  ~TelemetryCollector();
  TelemetryCollector(TelemetryCollector&&) noexcept;
  TelemetryCollector& operator=(TelemetryCollector&&) noexcept;

  void add(const Reading& reading);
  /// Up to now; more samples may follow.
  [[nodiscard]] DeviceTelemetry summary() const;

 private:
  friend std::vector<DeviceTelemetry> summarise(const SampleLog& log);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The part of a log between two Unix times.
SampleLog clipped(const SampleLog& log, int64_t from_ns, int64_t to_ns);

/// One for each device of a log that has rows.
std::vector<DeviceTelemetry> summarise(const SampleLog& log);

/// As a document; the only place that names these fields. Unknown is null. The first thirty fields have the names and
/// units of the Python package's GpuSummary ("mb" is MiB). Lists: throttle, idle gaps, processes, metrics, counters,
/// absent.
Record telemetry_record(const DeviceTelemetry& telemetry);

/// Utilization over time as text, one character per part, on a scale from 0 to 100 %; a blank: unknown.
std::string sparkline(const std::vector<double>& percentages);

}  // namespace profgpu
