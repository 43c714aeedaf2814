// Field values: most of what a device says, in one driver call.
#pragma once

#include <array>
#include <cstdint>

#include "collect/nvml_calls.h"
#include "trace/sample.h"

namespace profgpu::nvml {

class FieldBatch {
 public:
  explicit FieldBatch(DeviceCalls& calls);
  /// One call. Fields that the device does not have are left out from then on. `power_elsewhere`: average power comes
  /// from a finer source. The return code is that of the device as a whole.
  Return read(int64_t now_ns, bool everything, bool power_elsewhere, Reading& reading);
  /// A field of this metric is read, or may yet be.
  [[nodiscard]] bool has(Metric metric) const;

 private:
  struct Row {
    uint32_t field, scope;
    Metric metric;
    double scale;                  ///< the driver's number times this is ours
    bool slow;                     ///< changes rarely: asked every few seconds
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
  std::array<uint8_t, kRows> rows_{};  ///< those that the device has, into kAllRows, in its order: quick ones first
  uint8_t count_ = 0, quick_ = 0;
  Last power_, power_instant_;
  double link_errors_ = 0;
  bool any_link_errors_ = false;
  int64_t slow_at_ns_ = 0;
};

}  // namespace profgpu::nvml
