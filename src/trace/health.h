// When a device is not well: the one place that decides it, for findings, `doctor`, `top`, the monitor's alerts and the
// rules for Prometheus.
//
// Critical is what makes a device useless or its results doubtful: it wants a reset, a reboot or a replacement. What
// makes it slow is a warning. What may be as somebody wants it is worth knowing, no more.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "base/severity.h"
#include "trace/metric.h"

namespace profgpu {

/// What a check found.
enum class Health : uint8_t { kOk, kUnknown, kWarning, kProblem };
/// "ok", "unknown", "warning", "problem"
std::string_view health_name(Health health);
/// Nothing where all is well, or nobody can tell.
std::optional<Severity> severity_of(Health health);
Health health_of(Severity severity);

/// A figure that says how well a device is.
struct DeviceLimit {
  Severity severity;
  double said;           ///< beyond it findings, `doctor` and `top` speak of it
  double raised, until;  ///< beyond it an alert is raised that calls somebody, until the figure is back at the other
};
/// Percent of the time that heat, the hardware or the power brake held the clocks back.
constexpr DeviceLimit kHeldBackPct{Severity::kWarning, 5, 50, 25};
/// Degrees that are left before clocks are lowered.
constexpr DeviceLimit kToSlowdown_c{Severity::kWarning, 3, 3, 8};
/// Percent of the time that a device is busy which somebody holds. The same limit as of idle time in every summary.
constexpr DeviceLimit kIdlePct{Severity::kInfo, 5, 5, 10};
/// Percent of the memory that is in use. Programs that take all of it at once are full by design.
constexpr DeviceLimit kMemoryUsedPct{Severity::kInfo, 97, 97, 94};
/// Packets that were sent again over PCIe.
constexpr double kPcieReplaysSaid = 1000;

constexpr uint32_t bits_of(std::initializer_list<ClockReason> reasons) {
  uint32_t bits = 0;
  for (const ClockReason r : reasons) bits |= static_cast<uint32_t>(r);
  return bits;
}
constexpr uint32_t kHeatReasons = bits_of({ClockReason::kSwThermal, ClockReason::kHwThermal});
constexpr uint32_t kPowerReasons = bits_of({ClockReason::kSwPowerCap, ClockReason::kHwPowerBrake});
/// The power limit is not among them: it holds most busy devices back, as it should.
constexpr uint32_t kFaultReasons = kHeatReasons | bits_of({ClockReason::kHwSlowdown, ClockReason::kHwPowerBrake});
/// Of Metric::kClockEventReasons; nothing if the value cannot be one.
std::optional<uint32_t> reason_bits(std::optional<double> value);

/// Degrees left before clocks are lowered: to the limit, else what the device itself says.
constexpr std::optional<double> to_slowdown_c(std::optional<double> at, std::optional<double> limit,
                                              std::optional<double> margin) {
  return at && limit && *limit > 0 ? std::optional(*limit - *at) : margin;
}

/// Somebody lowered the limit. Drivers round, so a watt is nothing.
constexpr bool is_lowered(std::optional<double> limit_w, std::optional<double> usual_w) {
  return limit_w && usual_w && *limit_w < *usual_w - 1;
}

/// What a code of "NVRM: Xid" means.
struct XidMeaning {
  int code;
  Severity severity;
  std::string_view what, advice;
};
/// Null: not known.
const XidMeaning* find_xid(int code);
/// Of a code that is not known: that it is an error.
XidMeaning xid_meaning(int code);
/// Those whose meaning is known, by code.
std::span<const XidMeaning> known_xids();

}  // namespace profgpu
