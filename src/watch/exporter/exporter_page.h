// What the page of an exporter says of its devices: ours, or dcgm-exporter's.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "trace/sample.h"

namespace profgpu {

struct ExporterDevice {
  DeviceInfo info;
  bool up = true;                   ///< false: the exporter says that it does not answer
  int64_t good_at_ns = 0;           ///< Unix time at which it last answered the exporter; 0: not said
  std::array<std::optional<double>, kMetricCount> values = {};   ///< by Metric, in its unit; constants are in `info`
  std::vector<std::string> jobs;    ///< of a batch system
};

struct ExporterPage {
  std::string host;                 ///< as its labels say; empty: they do not
  std::vector<ExporterDevice> devices;   ///< by index and instance
};

/// Where both say a metric, our name counts: DCGM's are rounded. An error: it is no such page, or says nothing of a
/// device.
Result<ExporterPage> read_exporter_page(std::string_view text);

}  // namespace profgpu
