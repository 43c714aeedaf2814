// When an alert is raised and cleared, as data and as the text that users write:
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

/// What a condition can look at besides metrics.
struct AlertFigure {
  std::string_view name, unit, help;
  bool counter = false;   ///< counts from 0 when we start, so that its first value is an increase
  /// nullopt: not known. Null for `up`, which is not in a tally.
  std::optional<double> (*value)(const DeviceTally& tally, int64_t now_ns) = nullptr;
  std::string (*detail)(const DeviceTally& tally) = nullptr;   ///< what the number consists of; null: nothing
};
const std::vector<AlertFigure>& alert_figures();

struct AlertQuantity {
  const MetricInfo* metric = nullptr;         ///< null: the figure
  const AlertFigure* figure = nullptr;

  [[nodiscard]] std::string_view name() const { return metric ? metric->name : figure->name; }
  [[nodiscard]] std::string_view unit() const { return metric ? metric->unit : figure->unit; }
  [[nodiscard]] bool is_up() const { return !metric && !figure->value; }
  /// See AlertFigure::counter.
  [[nodiscard]] bool begins_at_zero() const { return metric ? metric->metric == Metric::kXidErrors : figure->counter; }
  /// The current value; nullopt: not known. Not for `up`.
  [[nodiscard]] std::optional<double> value(const DeviceTally& tally, int64_t now_ns) const {
    return metric ? tally.value(metric->metric, now_ns) : figure->value(tally, now_ns);
  }
};

struct AlertCondition {
  enum class Over : uint8_t { kNow, kMean, kIncrease };
  enum class Comparison : uint8_t { kAbove, kAtLeast, kBelow, kAtMost };

  AlertQuantity quantity;
  Over over = Over::kNow;
  int64_t window_ns = 0;        ///< of a mean or an increase
  Comparison comparison = Comparison::kAbove;
  double raise = 0;             ///< true from this level on
  double until = 0;             ///< once the alert is raised, true until this level

  [[nodiscard]] bool holds(double value, bool raised) const;
};

struct AlertRule {
  std::string name;
  std::string condition;                    ///< the text after the name, as written
  std::string advice;                       ///< what to do; empty for users' own alerts
  std::vector<AlertCondition> conditions;   ///< the alert is raised while all of them are true
  int64_t hold_ns = 0;                      ///< raised when true for this long
  int64_t clear_after_ns = 0;               ///< cleared when untrue for this long
  Severity severity = Severity::kWarning;
};

/// "NAME: off" gives a rule without conditions. The error is a usage error.
Result<AlertRule> parse_alert(std::string_view text);

/// An alert that comes with the program, for the monitor and for Prometheus (deploy/profgpu.rules.yml, which a test
/// holds to this table). Levels and severities are those of trace/health.h.
struct ShippedAlert {
  std::string_view name;        ///< "device_lost"; in Prometheus ProfgpuDeviceLost
  Severity severity;
  std::string_view hold;        ///< how long it must be true: "5m"; empty: raised at once
  std::string condition;        ///< in the monitor's grammar; empty: for Prometheus alone
  std::string expr;             ///< in Prometheus' language
  std::string summary, advice;  ///< with Prometheus' labels
  std::string_view remark = {}; ///< a comment in the file
};
const std::vector<ShippedAlert>& shipped_alert_table();
/// Those for the monitor.
const std::vector<AlertRule>& shipped_alerts();
/// `shipped`, then `requested`; one with the name of an earlier one replaces it, and "off" removes it.
Result<std::vector<AlertRule>> alerts_in_force(std::vector<AlertRule> shipped,
                                               const std::vector<std::string>& requested);

}  // namespace profgpu
