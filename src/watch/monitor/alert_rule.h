// When an alert is raised and when it is cleared, as data and as the text that people write:
//
//   NAME: QUANTITY OP LEVEL [until LEVEL] [and ...] [for TIME] [clear after TIME] [severity WORD]
//
// QUANTITY is a metric by one of its names, a figure (alert_figures()), mean(METRIC, TIME) or increase(METRIC, TIME).
// OP is one of > >= < <=. A level may carry a unit of the metric: 90%, 70GiB, 85C.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/severity.h"
#include "watch/exporter/device_tally.h"

namespace profgpu {

// What a condition of an alert looks at: a metric, or a figure that is made of several.

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

struct AlertCondition {
  enum class Over : uint8_t { kNow, kMean, kIncrease };
  enum class Comparison : uint8_t { kAbove, kAtLeast, kBelow, kAtMost };

  AlertQuantity quantity;
  Over over = Over::kNow;
  int64_t window_ns = 0;        ///< of a mean or an increase
  Comparison comparison = Comparison::kAbove;
  double raise = 0;             ///< true from this level on
  double until = 0;             ///< and once the alert is raised, as far back as this one

  [[nodiscard]] bool holds(double value, bool raised) const;
};

struct AlertRule {
  std::string name;
  std::string condition;                    ///< what stands behind the name, as written
  std::string advice;                       ///< what to do; empty for those that users write
  std::vector<AlertCondition> conditions;   ///< raised while all of them are true
  int64_t hold_ns = 0;                      ///< true for so long: raised
  int64_t clear_after_ns = 0;               ///< untrue for so long: cleared
  Severity severity = Severity::kWarning;
};

/// The rule that `text` is. "NAME: off" is one without conditions. The error is a usage error.
Result<AlertRule> parse_alert(std::string_view text);

/// What the Prometheus rules in deploy/ say, for a machine without Prometheus.
const std::vector<AlertRule>& shipped_alerts();
/// `shipped` with `asked` behind them; one of the same name takes the other's place, and "off" takes it away.
Result<std::vector<AlertRule>> alerts_in_force(std::vector<AlertRule> shipped, const std::vector<std::string>& asked);

}  // namespace profgpu
