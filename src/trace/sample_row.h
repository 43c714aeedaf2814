// SampleRow: one value for each metric of a reading.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "trace/sample.h"

namespace profgpu {

/// Of several samples of one metric a row has their mean, weighted by time (each holds until the next, the last as long
/// as they do on average); the last of them for counters and for what is no quantity: states, bits, codes.
class SampleRow {
 public:
  void take(const Reading& reading);
  [[nodiscard]] const std::optional<double>& operator[](Metric metric) const {
    return values_[static_cast<size_t>(metric)];
  }

 private:
  std::array<std::optional<double>, kMetricCount> values_;
  std::vector<Sample> sorted_;
};

/// Drivers keep its course between two readings: files may have rows of those times beside those of the ticks.
bool may_have_own_rows(Metric metric);

/// How a file names a device: "0", "0:7", "AMD 0" where another vendor's device has the same label, "node-b 0" where
/// another host's has.
std::string device_word(const std::vector<DeviceInfo>& devices, uint32_t device);

/// Shortest text that reads back as the same number; whole numbers without a fraction or an exponent.
void append_number(std::string& out, double value);

}  // namespace profgpu
