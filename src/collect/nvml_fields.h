// Field values: most of what a device says, in one driver call.
#pragma once

#include <cstdint>
#include <vector>

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
    int64_t last_ns = 0;           ///< time of the last sample
    double last = 0;
  };
  static const std::vector<Row>& all_rows();
  void prepare(bool slow);
  Return take(const FieldValue& value, Row& row, bool power_elsewhere, Reading& reading);
  void add(Row& row, double value, int64_t driver_us, Reading& reading);

  DeviceCalls& calls_;
  std::vector<Row> rows_;          ///< quick ones first
  size_t quick_ = 0;               ///< how many of them
  std::vector<FieldValue> values_; ///< as many as rows
  double link_errors_ = 0;
  bool any_link_errors_ = false;
  int64_t slow_at_ns_ = 0;
};

}  // namespace profgpu::nvml
