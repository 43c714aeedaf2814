// profgpu::Monitor: watches GPUs while a part of a program runs, and says what they did.
//
//   profgpu::Monitor monitor;              // every device that this process can see, five samples a second
//   monitor.start();
//   monitor.mark("epoch 1");
//   train();
//   monitor.stop();
//   for (const auto& device : monitor.summary()) std::cout << device.text() << '\n';
//
// Where no device can be watched, a Monitor does nothing and problem() says why. What a device cannot say is absent
// (std::nullopt, or not in the map), never 0. Names end in the unit: _s seconds, _ns nanoseconds, _pct percent of 0 to
// 100, _w watts, _j joules, _bytes bytes.
//
// Errors: nothing throws but std::bad_alloc. Nothing is printed.
// Threads: sampling has threads of its own. One Monitor may be used from several threads, moves and destructor aside.
// Ownership: what functions return by value is the caller's; references hold as long as the Monitor.
// Compatibility: within a minor version (0.1.*) libraries replace each other; between them structs may gain fields.
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
  /// By metric: "utilization_pct", "power_w"; `profgpu log --help-query` lists all with their units. What changes
  /// slowly is asked in turns and not in every sample. What never changes is in MonitorSummary::constants instead.
  std::map<std::string, double> values;
  std::optional<double> age_s;            ///< how long ago its utilization, new or not, began to hold
};

/// A metric over the watched time, weighted by time, in the metric's unit.
struct MonitorStatistics {
  std::optional<double> mean, stddev, min, max;   ///< stddev: the population's; absent for one sample
  std::int64_t samples = 0;               ///< values that the device had; a driver may keep more than it was asked for
  double resolution_s = 0;                ///< typical distance of new values; 0: unknown
};

/// What one device did from start() (or the end of the warm-up) to stop(), or to now.
struct PROFGPU_API MonitorSummary {
  std::string device;                     ///< "0"; "0:7" for a MIG instance
  std::string name, uuid, pci_bus_id;
  double duration_s = 0;                  ///< from the first reading to the last
  double interval_s = 0;                  ///< as asked
  std::int64_t readings = 0;              ///< how often the device was asked and answered

  std::map<std::string, MonitorStatistics> metrics;         ///< gauges, by name
  std::map<std::string, double> counters;                   ///< how much counters grew, by name
  std::map<std::string, double> constants;                  ///< limits and maxima, by name

  // Utilization in percent, as the driver defines it: time in which at least one kernel ran.
  std::optional<double> utilization_p5, utilization_p50, utilization_p95, utilization_p99;
  std::optional<double> idle_pct, active_pct;               ///< share of the time under 5 %, from 50 %
  std::optional<double> busy_s;                             ///< utilization integrated over time
  std::optional<double> energy_j;                           ///< of the whole board
  std::string energy_method;                                ///< "counter", "integrated" from the power, or empty
  std::map<std::string, double> throttle_pct;               ///< share of the time, by reason ("sw_power_cap")
  std::optional<double> memory_growth_bytes_per_s;          ///< slope of a line through the memory in use
  std::vector<double> trace;                                ///< utilization in 40 equal parts of the time; NaN: unknown
  std::vector<std::string> notes;                           ///< what was missing
  std::vector<std::string> troubles;                        ///< of the notes: since when the device does not answer

  /// A few lines for a person, the last without a line break.
  [[nodiscard]] std::string text() const;
};

/// What happened between marks of one name, on one device.
struct MonitorPhase {
  std::string name;
  std::size_t device = 0;                 ///< position in Monitor::devices()
  std::int64_t count = 0;                 ///< how often the name was marked
  double duration_s = 0;                  ///< over all of them
  std::optional<double> utilization_mean_pct, power_mean_w, energy_j, memory_max_bytes;
};

struct MonitorOptions {
  std::vector<std::string> devices;       ///< indices, UUIDs, PCI ids, "cuda:N", "all"; none: what the process can see
  double interval_s = 0.2;                ///< 0.001 to 86400; anything else is a problem()
  std::string backend = "auto";           ///< auto, nvml, smi, amdgpu, intel, replay:FILE, none
  double warmup_s = 0;                    ///< what comes before is left out of summary()
  std::size_t keep_samples = 0;           ///< samples() holds the newest so many, over all devices; 0: none
  /// Called for each sample on a sampling thread, never twice at once. It is part of the tick: a slow one makes samples
  /// late. It must not call stop() or destroy the Monitor, which wait for it, and must not throw.
  std::function<void(const MonitorSample&)> on_tick;
};

struct MonitorDevice {
  std::string label;                      ///< as MonitorSummary::device
  std::string name, vendor, uuid, pci_bus_id, driver_version;   ///< empty: not known
  std::optional<double> memory_total_bytes;
};

class PROFGPU_API Monitor {
 public:
  /// Finds the devices, which takes milliseconds (seconds where a driver has to wake them up). Samples nothing yet.
  explicit Monitor(MonitorOptions options = {});
  /// Stops.
  ~Monitor();
  /// A running Monitor may be moved; one that is assigned to stops first. What was moved from may only be assigned to
  /// or destroyed.
  Monitor(Monitor&&) noexcept;
  Monitor& operator=(Monitor&&) noexcept;

  /// Empty: devices are watched. Else one sentence that says why not.
  [[nodiscard]] const std::string& problem() const;
  /// What is watched; empty where there is a problem().
  [[nodiscard]] const std::vector<MonitorDevice>& devices() const;

  /// The first sample is taken at once, on a sampling thread. Does nothing if it runs already. May be called again
  /// after stop(): everything begins anew.
  void start();
  /// From now on is phase `name`, until the next mark or stop(). Does nothing before start().
  void mark(const std::string& name);
  /// The same, of a phase that goes on after one within it: not counted as another.
  void go_on(const std::string& name);
  /// Whether what is marked from now on is within a step of a training loop. A step begins where this turns true.
  void within_step(bool is_within);
  /// Takes one last sample of each device that answers. Idempotent. Waits two seconds at most for a driver that hangs;
  /// the thread that hangs in it is left behind.
  void stop();

  /// So far, if it runs; in the order of devices(). Empty before start().
  [[nodiscard]] std::vector<MonitorSummary> summary() const;
  /// By device, then by name.
  [[nodiscard]] std::vector<MonitorPhase> phases() const;
  /// All steps together, whatever their phases are: named "step", one for each device that has been within a step.
  [[nodiscard]] std::vector<MonitorPhase> steps() const;
  /// The newest MonitorOptions::keep_samples, the oldest first.
  [[nodiscard]] std::vector<MonitorSample> samples() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace profgpu
