// What of a device is drawn as a chart, the most important first.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "watch/top/chart.h"
#include "watch/top/model.h"

namespace profgpu {

struct DeviceChart {
  std::string_view title;
  std::string value, more;   ///< now; how large it was or how it was before, may be empty
  std::string top;           ///< what fills it: "700 W"
  std::vector<float> points;
  double most = 100;
  Look look = plain_look;
};

/// The first `limit` of those of which there is anything in the last `points` intervals.
std::vector<DeviceChart> device_charts(const LiveDevice& device, const DeviceHistory& history, int64_t interval_ns,
                                       int points, size_t limit);

/// Charts of one width, beside and below each other.
struct ChartBands {
  int indent = 0, gutter = 0;
  int beside = 2;
  int rows = 0;              ///< of each
  bool values = false;       ///< labels are title and values; else scale and title
  [[nodiscard]] int cells(int width) const;
  [[nodiscard]] int points(int width) const { return cells(width) * kPointsPerCell; }
};
/// `axis` goes below each band; empty: nothing does.
Lines chart_bands(const std::vector<DeviceChart>& charts, const ChartBands& bands, const Line& axis);
/// The time axis below each of the charts beside each other.
Line axis_line(const ChartBands& bands, int width, int64_t interval_ns);

}  // namespace profgpu
