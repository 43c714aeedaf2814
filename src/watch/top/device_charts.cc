#include "watch/top/device_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "watch/top/pages.h"

namespace profgpu {
namespace {

constexpr int kChartGap = 2;   // between charts
constexpr int64_t kMinute_ns = 60'000'000'000;

class DeviceChartList {
 public:
  DeviceChartList(const LiveDevice& device, const DeviceHistory& history, int64_t interval_ns, int points,
                  size_t limit)
      : device_(device), history_(history), interval_ns_(interval_ns), points_(points), limit_(limit) {}

  void percent(Track track, std::string_view title, Look look) {
    add(track, {title, rounded(history_.latest(track), " %"), "", "100 %", {}, 100, look});
  }
  void limited(Track track, std::string_view title, std::string_view unit, Metric limit, double otherwise, Look look) {
    const auto most = device_.value(limit);
    const std::string of = most ? " of " + rounded(most, "") : "";
    const double top = most.value_or(otherwise);
    add(track, {title, rounded(history_.latest(track), "") + of + std::string(unit), "",
                top > 0 ? rounded(top, unit) : "", {}, top, look});
  }
  // How much of the time a limit slowed the clocks down.
  void slowed(Track track, std::string_view title) {
    const auto mean = history_.mean(track, kMinute_ns);
    if (history_.latest(track).value_or(0) <= 0 && largest(history_.columns(track, interval_ns_, points_)) <= 0) return;
    add(track, {title, rounded(history_.latest(track), " %"), mean ? "1 min " + rounded(mean, " %") : "", "100 %", {},
                100, slowed_look});
  }
  void speed(Track track, std::string_view title) {
    add(track, {title, speed_text(history_.latest(track)), "", "", {}, 0, plain_look});
    if (charts_.empty() || charts_.back().title != title || charts_.back().most <= 0) return;
    charts_.back().top = speed_text(charts_.back().most);
    charts_.back().more = "top " + charts_.back().top;
  }
  std::vector<DeviceChart> take() { return std::move(charts_); }

 private:
  // `most` 0: the largest value shown.
  void add(Track track, DeviceChart chart) {
    if (charts_.size() >= limit_) return;
    chart.points = history_.columns(track, interval_ns_, points_);
    const double top = largest(chart.points);
    if (!history_.latest(track) && top <= 0) return;
    if (chart.most <= 0) chart.most = top;
    charts_.push_back(std::move(chart));
  }

  const LiveDevice& device_;
  const DeviceHistory& history_;
  int64_t interval_ns_;
  int points_;
  size_t limit_;
  std::vector<DeviceChart> charts_;
};

}  // namespace

std::vector<DeviceChart> device_charts(const LiveDevice& device, const DeviceHistory& history, int64_t interval_ns,
                                       int points, size_t limit) {
  constexpr double kUsualSlowdown_c = 90;
  DeviceChartList list(device, history, interval_ns, points, limit);
  list.percent(Track::kUtilization, "busy", busy_look);
  list.percent(Track::kMemory, "memory", full_look);
  list.limited(Track::kPower, "power", " W", Metric::kPowerLimit, 0, limit_look);
  list.limited(Track::kSmClock, "SM clock", " MHz", Metric::kSmClockMax, 0, plain_look);
  list.limited(Track::kTemperature, "temperature", " °C", Metric::kTemperatureSlowdown, kUsualSlowdown_c, heat_look);
  list.slowed(Track::kHeldByHeat, "slowed by heat");
  list.slowed(Track::kHeldByPower, "slowed by power");
  list.slowed(Track::kHeldByOther, "slowed, other");
  list.percent(Track::kSmActive, "SMs active", busy_look);
  list.percent(Track::kTensorActive, "tensor cores", plain_look);
  list.percent(Track::kDramActive, "memory traffic", plain_look);
  list.percent(Track::kSmOccupancy, "occupancy", plain_look);
  list.speed(Track::kPcieRx, "PCIe in");
  list.speed(Track::kPcieTx, "PCIe out");
  list.speed(Track::kLinkRx, "NVLink in");
  list.speed(Track::kLinkTx, "NVLink out");
  return list.take();
}

int ChartBands::cells(int width) const {
  return std::max((width - indent - (beside - 1) * kChartGap) / beside - gutter, 0);
}

Lines chart_bands(const std::vector<DeviceChart>& charts, const ChartBands& bands, const Line& axis) {
  Lines out;
  for (size_t i = 0; i < charts.size(); i += static_cast<size_t>(bands.beside)) {
    Lines band;
    for (size_t k = i; k < std::min(i + static_cast<size_t>(bands.beside), charts.size()); ++k) {
      const DeviceChart& c = charts[k];
      const std::string title(c.title);
      Chart chart{{}, c.points, c.most, c.look};
      if (bands.values) chart.labels = {title, c.value, c.more};
      else chart.labels = {c.top, title};
      Lines drawn = chart_lines(chart, bands.gutter, bands.rows);
      if (k == i) band.resize(drawn.size());
      for (size_t r = 0; r < drawn.size(); ++r) band[r].skip(k == i ? bands.indent : kChartGap).add(drawn[r]);
    }
    append(out, std::move(band));
    if (axis.width() > 0) out.push_back(axis);
  }
  return out;
}

Line axis_line(const ChartBands& bands, int width, int64_t interval_ns) {
  const std::string axis = time_axis(interval_ns, bands.cells(width));
  Line line;
  for (int i = 0; i < bands.beside; ++i)
    line.skip((i == 0 ? bands.indent : kChartGap) + bands.gutter).add(axis, Style::kFaint);
  return line;
}

}  // namespace profgpu
