// Field values: most of a device's numbers in one driver call.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "devices/backend.h"
#include "devices/nvml_library.h"
#include "trace/metric.h"
#include "trace/sample.h"

namespace profgpu::nvml {

class FieldBatch {
 public:
  explicit FieldBatch(DeviceCalls& calls);
  /// Makes one call. Fields that the device lacks are left out from then on. `power_elsewhere`: average power comes
  /// from a finer source. The return code is that of the device as a whole.
  Return read(const ReadRequest& request, bool power_elsewhere, Reading& reading);
  /// A field of this metric is read, or may yet be.
  [[nodiscard]] bool has(Metric metric) const;

 private:
  struct Row {
    uint32_t field, scope;
    Metric metric;
    double scale;                  ///< the driver's number times this is ours
    bool slow;                     ///< changes rarely: read every few seconds
  };
  struct Last {
    int64_t time_ns = 0;           ///< 0: none yet
    double value = 0;
  };
  static constexpr size_t kRows = 34;
  static const std::array<Row, kRows> kAllRows;
  Return take(const FieldValue& value, const Row& row, bool power_elsewhere, Reading& reading);
  void add(const Row& row, double value, int64_t driver_us, Reading& reading);

  DeviceCalls& calls_;
  std::vector<const Row*> quick_, slow_;  ///< those that the device has
  Last power_, power_instant_;
  double link_errors_ = 0;
  bool any_link_errors_ = false;
  int64_t slow_at_ns_ = 0;
};

// GPM: the activity counters of Hopper and newer, also of MIG instances, without root.

class Gpm {
 public:
  explicit Gpm(DeviceCalls& calls) : calls_(calls) {}
  ~Gpm();
  Gpm(const Gpm&) = delete;
  Gpm& operator=(const Gpm&) = delete;

  /// Takes the counters and adds their values over the time since the last take, stamped with its start.
  Return read(int64_t now_ns, Reading& reading);

 private:
  Return start();
  Return take(GpmSample sample);
  Return read_new(int64_t now_ns, Reading& reading);
  Return add_metrics(Reading& reading);

  DeviceCalls& calls_;
  bool started_ = false;
  GpmSample before_ = nullptr, after_ = nullptr;
  int64_t taken_ns_ = 0;       ///< monotonic; 0: nothing yet
  int64_t taken_unix_ns_ = 0;
};

}  // namespace profgpu::nvml
