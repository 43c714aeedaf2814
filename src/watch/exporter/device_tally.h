// The current state of a device from all its readings since the start: the newest value of each metric, and integrals
// of samples, so that infrequent readers miss nothing.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "trace/sample.h"

namespace profgpu {

/// The integral of samples over time; each holds until the next.
struct Integral {
  double sum = 0;       ///< value × seconds
  double seconds = 0;   ///< covered
  int64_t last_ns = 0;  ///< Unix time of the last sample; 0: none yet
  double last = 0;      ///< its value

  /// Ignores a sample that is not newer than the last, and a gap of more than `longest_ns` before it.
  void add(int64_t time_ns, double value, int64_t longest_ns);
};

class DeviceTally {
 public:
  /// `interval_ns`: between readings.
  DeviceTally(const DeviceInfo& info, int64_t interval_ns);

  void add(const Reading& reading);

  /// The newest sample, or the constant; nullopt once it is out of date.
  [[nodiscard]] std::optional<double> value(Metric metric, int64_t now_ns) const;
  /// Whether the device ever reported it.
  [[nodiscard]] bool reported(Metric metric) const { return newest_[static_cast<size_t>(metric)].time_ns != 0; }
  /// A counter's growth per second between its last two samples, in its own unit.
  [[nodiscard]] std::optional<double> per_second(Metric counter, int64_t now_ns) const;

  /// Percent × seconds of Metric::kUtilization.
  [[nodiscard]] const Integral& busy() const { return busy_; }
  /// For a counter that the driver does not have: joules from power, bytes from rates. nullopt: there is no such
  /// figure.
  [[nodiscard]] std::optional<double> integrated(Metric counter) const;
  /// Seconds with lowered clocks for each of clock_reasons(), in that order.
  [[nodiscard]] const std::vector<Integral>& reasons() const { return reasons_; }

  /// Xid errors by code since the start; code -1: the driver's count grew without an event that has the code. nullopt:
  /// not reported for this device.
  [[nodiscard]] const std::optional<std::map<int64_t, int64_t>>& xids() const { return xids_; }
  [[nodiscard]] bool has_processes() const { return has_processes_; }
  /// Of the last reading that included processes.
  [[nodiscard]] const std::vector<ProcessSample>& processes() const { return processes_; }

 private:
  struct Newest {
    double value = 0, before = 0;
    int64_t time_ns = 0, before_ns = 0;  // Unix time; 0: none
  };
  void integrate(const Sample& sample);
  void count_xids(const Reading& reading);
  [[nodiscard]] bool fresh(const Newest& newest, int64_t now_ns) const;

  int64_t interval_ns_;
  std::array<Newest, kMetricCount> newest_{};
  std::vector<std::pair<Metric, double>> constants_;
  Integral busy_;
  std::map<Metric, Integral> integrated_;   // by counter
  std::vector<Integral> reasons_;
  std::optional<std::map<int64_t, int64_t>> xids_;
  int64_t xids_counted_ = 0, last_xid_ns_ = 0;
  bool has_processes_ = false;
  std::vector<ProcessSample> processes_;
};

/// The tallies of all devices: the sampler writes them, readers copy them. Neither waits longer than a copy takes.
class DeviceTallies {
 public:
  /// `devices`: indices among `infos`.
  DeviceTallies(const std::vector<DeviceInfo>& infos, const std::vector<uint32_t>& devices, int64_t interval_ns);

  void add(const Reading& reading);
  /// In the order of `devices`.
  [[nodiscard]] std::vector<DeviceTally> copy() const;
  /// Readings so far.
  [[nodiscard]] int64_t readings() const;

 private:
  mutable std::mutex mutex_;
  std::vector<uint32_t> devices_;
  std::vector<DeviceTally> tallies_;
  int64_t readings_ = 0;
};

}  // namespace profgpu
