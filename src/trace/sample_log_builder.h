// From rows, in any order, to a SampleLog: devices by what rows say of them, one series a metric.
//
// Budget: 1 µs a row of ten metrics; no allocation a row beyond the columns' own.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trace/sample.h"

namespace profgpu {

/// One row of a file. Reused, so that its texts keep their memory.
struct SampleFileRow {
  std::optional<int64_t> time_ns;
  std::string device, mark;
  DeviceInfo info;   ///< what the row has of kDeviceTexts, and the NUMA node
  std::vector<std::pair<Metric, double>> values;
  bool has_processes = false;
  std::vector<ProcessSample> processes;

  void clear();
};

/// Sorts devices by host, vendor and index, and everything else by device and time. Of several values of one time the
/// last stands.
void sort_samples(SampleLog& log);

class SampleLogBuilder {
 public:
  /// False: the row has no time, or there are too many devices.
  bool add(const SampleFileRow& row);
  /// Whether any row did not name its device.
  [[nodiscard]] bool unnamed_device() const { return unnamed_; }
  [[nodiscard]] bool empty() const { return log_.ticks == 0; }
  /// The builder is empty afterwards.
  SampleLog finish();

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Device {
    std::array<uint32_t, kMetricCount> series;   ///< index in the log; kNone: none yet
    std::vector<std::pair<Metric, double>> constants;
  };

  uint32_t device_of(const SampleFileRow& row);
  uint32_t new_device(const std::string& word, const SampleFileRow& row);
  void describe(DeviceInfo& info, const SampleFileRow& row);

  SampleLog log_;
  std::vector<Device> devices_;
  std::map<std::string, uint32_t, std::less<>> by_word_;
  std::string last_word_;
  uint32_t last_device_ = kNone;
  bool unnamed_ = false;
};

}  // namespace profgpu
