#include "monitor/alert_figure.h"

#include "trace/health.h"

namespace profgpu {
namespace {

std::optional<double> critical_xids(const DeviceTally& tally) {
  if (!tally.xids()) return std::nullopt;
  int64_t count = 0;
  for (const auto& [code, times] : *tally.xids()) count += is_critical_xid(code) ? times : 0;
  return static_cast<double>(count);
}

std::optional<double> used_pct(const DeviceTally& tally, int64_t now_ns) {
  const auto used = tally.value(Metric::kMemoryUsed, now_ns), total = tally.value(Metric::kMemoryTotal, now_ns);
  if (!used || !total || *total <= 0) return std::nullopt;
  return *used / *total * 100;
}

std::optional<double> slowed_down_pct(const DeviceTally& tally, int64_t now_ns) {
  const auto reasons = reason_bits(tally.value(Metric::kClockEventReasons, now_ns));
  if (!reasons) return std::nullopt;
  return (*reasons & kFaultReasons) != 0 ? 100 : 0;
}

std::optional<double> to_slowdown(const DeviceTally& tally, int64_t now_ns) {
  return to_slowdown_c(tally.value(Metric::kTemperature, now_ns), tally.value(Metric::kTemperatureSlowdown, now_ns),
                       tally.value(Metric::kTemperatureMargin, now_ns));
}

const AlertFigureInfo& info_of(AlertFigure figure) { return alert_figures()[static_cast<size_t>(figure)]; }

}  // namespace

const std::vector<AlertFigureInfo>& alert_figures() {
  static const std::vector<AlertFigureInfo> kAll = {
      {AlertFigure::kUp, "up", "", "1 while the device answers, else 0"},
      {AlertFigure::kMemoryUsedPct, "memory_used_pct", "%", "part of the device's memory that programs hold"},
      {AlertFigure::kSlowedDownPct, "slowed_down_pct", "%", "100 while heat, the hardware or the power brake lowers clocks, else 0"},
      {AlertFigure::kToSlowdown, "to_slowdown_c", "°C", "degrees left before clocks are lowered"},
      {AlertFigure::kProcesses, "processes", "", "processes on the device"},
      {AlertFigure::kXidsCritical, "xids_critical", "", "Xid errors since we watch after which the device needs a reset or more"},
  };
  return kAll;
}

bool is_critical_xid(int64_t code) {
  return code == static_cast<int>(code) && xid_meaning(static_cast<int>(code)).severity == Severity::kCritical;
}

std::string_view AlertQuantity::name() const { return metric ? metric->name : info_of(figure).name; }
std::string_view AlertQuantity::unit() const { return metric ? metric->unit : info_of(figure).unit; }

bool AlertQuantity::begins_at_zero() const {
  return metric ? metric->metric == Metric::kXidErrors : figure == AlertFigure::kXidsCritical;
}

std::optional<double> AlertQuantity::value(const DeviceTally& tally, int64_t now_ns) const {
  if (metric) return tally.value(metric->metric, now_ns);
  switch (figure) {
    case AlertFigure::kUp: return std::nullopt;
    case AlertFigure::kMemoryUsedPct: return used_pct(tally, now_ns);
    case AlertFigure::kSlowedDownPct: return slowed_down_pct(tally, now_ns);
    case AlertFigure::kToSlowdown: return to_slowdown(tally, now_ns);
    case AlertFigure::kProcesses: return tally.has_processes() ? std::optional<double>(tally.processes().size()) : std::nullopt;
    case AlertFigure::kXidsCritical: return critical_xids(tally);
  }
  return std::nullopt;
}

}  // namespace profgpu
