// When a device is unhealthy: the only place that decides it, for findings, `doctor`, `top`, the monitor's alerts and
// the rules for Prometheus.
//
// Critical: the device is useless or its results are doubtful; it needs a reset, a reboot or a replacement. Warning: it
// is slow. Info: it may be intended.
#pragma once

#include <optional>
#include <string>
#include <span>
#include <string_view>

#include "base/severity.h"
#include "trace/metric.h"

namespace profgpu {

/// The result of a check.
enum class Health : uint8_t { kOk, kUnknown, kWarning, kProblem };
/// "ok", "unknown", "warning", "problem"
std::string_view health_name(Health health);
/// nullopt for ok and unknown.
std::optional<Severity> severity_of(Health health);
Health health_of(Severity severity);

/// Limits of a figure for a device's health.
struct DeviceLimit {
  Severity severity;
  double reported;       ///< beyond it, findings, `doctor` and `top` report it
  double raised, until;  ///< beyond the first an alert is raised, until the figure is back at the second
};
/// Percent of the time with clocks throttled by heat, the hardware or the power brake.
constexpr DeviceLimit kHeldBackPct{Severity::kWarning, 5, 50, 25};
/// Degrees left before clocks are lowered.
constexpr DeviceLimit kToSlowdown_c{Severity::kWarning, 3, 3, 8};
/// Percent of the time that an allocated device is busy. The same limit as for idle time in every summary.
constexpr DeviceLimit kIdlePct{Severity::kInfo, 5, 5, 10};
/// Percent of the memory in use. Programs that allocate all of it at once are full by design.
constexpr DeviceLimit kMemoryUsedPct{Severity::kInfo, 97, 97, 94};
/// Packets retransmitted over PCIe.
constexpr double kMinPcieReplays = 1000;

constexpr uint32_t kHeatReasons = bits_of({ClockReason::kSwThermal, ClockReason::kHwThermal});
constexpr uint32_t kPowerReasons = bits_of({ClockReason::kSwPowerCap, ClockReason::kHwPowerBrake});
/// Without the power limit: it limits most busy devices by design.
constexpr uint32_t kFaultReasons = kHeatReasons | bits_of({ClockReason::kHwSlowdown, ClockReason::kHwPowerBrake});
/// Of Metric::kClockEventReasons; nullopt for an impossible value.
std::optional<uint32_t> reason_bits(std::optional<double> value);
/// What the driver recommends: a value of Metric::kRecoveryAction in words, "reset the GPU".
std::string recovery_action(double value);

/// Degrees left before clocks are lowered: to the limit, else the device's own margin.
constexpr std::optional<double> to_slowdown_c(std::optional<double> at, std::optional<double> limit,
                                              std::optional<double> margin) {
  return at && limit && *limit > 0 ? std::optional(*limit - *at) : margin;
}

/// Whether the power limit was lowered. Drivers round, so a watt does not count.
constexpr bool is_lowered(std::optional<double> limit_w, std::optional<double> usual_w) {
  return limit_w && usual_w && *limit_w < *usual_w - 1;
}

/// The meaning of a code of "NVRM: Xid".
struct XidMeaning {
  int code;
  Severity severity;
  std::string_view what, advice;
};
/// Null: unknown.
const XidMeaning* find_xid(int code);
/// Of an unknown code: an error of the device or driver.
XidMeaning xid_meaning(int code);
/// Not of what the driver notes while programs go on: rows that it remaps, errors that it corrects.
bool xid_ends_programs(int code);
/// The known ones, by code.
std::span<const XidMeaning> known_xids();

}  // namespace profgpu
