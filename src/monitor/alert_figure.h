// What a condition of an alert looks at: a metric, or a figure that is made of several.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "exporter/device_tally.h"

namespace profgpu {

enum class AlertFigure : uint8_t { kUp, kMemoryUsedPct, kSlowedDownPct, kToSlowdown, kProcesses, kXidsCritical };

struct AlertFigureInfo {
  AlertFigure figure;
  std::string_view name, unit, help;
};
const std::vector<AlertFigureInfo>& alert_figures();

struct AlertQuantity {
  const MetricInfo* metric = nullptr;         ///< null: the figure
  AlertFigure figure = AlertFigure::kUp;

  [[nodiscard]] std::string_view name() const;
  [[nodiscard]] std::string_view unit() const;
  /// It counts from 0 when we start to watch, so that its first value is an increase.
  [[nodiscard]] bool begins_at_zero() const;
  /// What is known of it now; nullopt: nothing. kUp is not the tally's to say.
  [[nodiscard]] std::optional<double> value(const DeviceTally& tally, int64_t now_ns) const;
};

/// Whether the device needs a reset, a reboot or a replacement after this Xid; others are mostly errors of programs.
bool is_critical_xid(int64_t code);

}  // namespace profgpu
