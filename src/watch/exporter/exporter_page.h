// The devices on the page of an exporter, ours or dcgm-exporter.
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
  bool up = true;                   ///< false: the exporter reports that it does not answer
  int64_t good_at_ns = 0;           ///< Unix time of its last answer to the exporter; 0: not reported
  std::array<std::optional<double>, kMetricCount> values = {};   ///< by Metric, in its unit; constants are in `info`
  std::vector<std::string> jobs;    ///< of a batch system
};

struct ExporterPage {
  std::string host;                 ///< by its labels; empty: they have none
  std::vector<ExporterDevice> devices;   ///< by index and instance
};

/// If a metric has both our name and DCGM's, ours counts: DCGM's values are rounded. The error: not such a page, or no
/// device on it.
Result<ExporterPage> read_exporter_page(std::string_view text);

}  // namespace profgpu
