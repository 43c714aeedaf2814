// profgpu::Monitor: watches GPUs while a part of a program runs, and says what they did.
//
//   profgpu::Monitor monitor;              // every device that this process can see, five samples a second
//   monitor.start();
//   monitor.mark("epoch 1");
//   train();
//   monitor.stop();
//   for (const auto& device : monitor.summary()) std::cout << device.text() << '\n';
//
// Sampling runs on a thread of its own. Where no device can be watched, a Monitor does nothing and problem() says why; no
// function throws, unless memory runs out. What a device cannot say is absent (std::nullopt), never 0. One Monitor may be
// used from several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#if defined(__GNUC__)
#define PROFGPU_API __attribute__((visibility("default")))
#else
#define PROFGPU_API
#endif

namespace profgpu {

/// What one device said at one time.
struct MonitorSample {
  double t_s = 0;                         ///< seconds since start()
  std::int64_t time_ns = 0;               ///< Unix time
  std::size_t device = 0;                 ///< position in Monitor::devices()
  std::map<std::string, double> values;   ///< by metric: "utilization_pct", "power_w" (`profgpu log --help-query` lists all)
};

/// A metric over the watched time, weighted by time.
struct MonitorStatistics {
  std::optional<double> mean, stddev, min, max;   ///< stddev: the population's; absent for one sample
  std::int64_t samples = 0;
  double resolution_s = 0;                ///< typical distance of new values; 0: unknown
};

/// What one device did from start() (or the end of the warm-up) to stop(), or to now.
struct PROFGPU_API MonitorSummary {
  std::string device;                     ///< "0"; "0:7" for a MIG instance
  std::string name, uuid, pci_bus_id;
  double duration_s = 0, interval_s = 0;
  std::int64_t readings = 0;

  std::map<std::string, MonitorStatistics> metrics;         ///< gauges, by name
  std::map<std::string, double> counters;                   ///< how much counters grew, by name
  std::map<std::string, double> constants;                  ///< limits and maxima, by name

  // Utilization, in percent of the driver's own definition: time in which at least one kernel ran.
  std::optional<double> utilization_p5, utilization_p50, utilization_p95, utilization_p99;
  std::optional<double> idle_pct, active_pct;               ///< share of the time under 5 %, from 50 %
  std::optional<double> busy_s;                             ///< utilization integrated over time
  std::optional<double> energy_j;
  std::string energy_method;                                ///< "counter", "integrated", or empty
  std::map<std::string, double> throttle_pct;               ///< share of the time, by reason ("sw_power_cap")
  std::optional<double> memory_growth_bytes_per_s;
  std::vector<double> trace;                                ///< utilization in 40 equal parts of the time; NaN: unknown
  std::vector<std::string> notes;

  /// A few lines for a person.
  [[nodiscard]] std::string text() const;
};

/// What happened between marks of one name, on one device.
struct MonitorPhase {
  std::string name;
  std::size_t device = 0;
  std::int64_t count = 0;                 ///< how often the name was marked
  double duration_s = 0;
  std::optional<double> utilization_mean_pct, power_mean_w, energy_j, memory_max_bytes;
};

struct MonitorOptions {
  std::vector<std::string> devices;       ///< indices, UUIDs, PCI ids, "cuda:N", "all"; none: what the process can see
  double interval_s = 0.2;                ///< from 0.001; anything else is a problem()
  std::string backend = "auto";           ///< auto, nvml, smi, amdgpu, intel, replay:FILE, none
  double warmup_s = 0;                    ///< what comes before is left out of summary()
  std::size_t keep_samples = 0;           ///< samples() holds the newest so many; 0: none
  std::function<void(const MonitorSample&)> on_tick;  ///< called on the sampling thread; must be quick
};

struct MonitorDevice {
  std::string label, name, vendor, uuid, pci_bus_id, driver_version;
  std::optional<double> memory_total_bytes;
};

class PROFGPU_API Monitor {
 public:
  explicit Monitor(MonitorOptions options = {});
  ~Monitor();                             ///< stops
  Monitor(Monitor&&) noexcept;
  Monitor& operator=(Monitor&&) noexcept;

  /// Empty: devices are watched. Else one sentence that says why not.
  [[nodiscard]] const std::string& problem() const;
  [[nodiscard]] const std::vector<MonitorDevice>& devices() const;

  /// The first sample is taken at once. May be called again after stop(): everything begins anew.
  void start();
  /// From now on is phase `name`, until the next mark or stop().
  void mark(const std::string& name);
  /// Takes one last sample. Idempotent.
  void stop();

  /// So far, if it runs; in the order of devices().
  [[nodiscard]] std::vector<MonitorSummary> summary() const;
  [[nodiscard]] std::vector<MonitorPhase> phases() const;
  [[nodiscard]] std::vector<MonitorSample> samples() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace profgpu
