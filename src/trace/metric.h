// Metric: what can be measured on a device. Screens, files, the exporter and the documentation all use its table of
// names, units, help texts, Prometheus names and nvidia-smi fields.
#pragma once

#include <bitset>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace profgpu {

enum class Metric : uint8_t {
  // How busy: percent of time, over the driver's own window.
  kUtilization, kMemoryUtilization, kEncoderUtilization, kDecoderUtilization, kJpegUtilization, kOfaUtilization,
  // Hardware counters of activity, where the chip has them.
  kGraphicsActive, kSmActive, kSmOccupancy, kTensorActive, kDramActive, kFp64Active, kFp32Active, kFp16Active,
  // Memory.
  kMemoryTotal, kMemoryUsed, kMemoryFree, kMemoryReserved, kBar1Total, kBar1Used,
  // Power and energy.
  kPower, kPowerInstant, kEnergy, kPowerLimit, kPowerLimitDefault, kPowerLimitMin, kPowerLimitMax,
  // Temperatures and fan.
  kTemperature, kMemoryTemperature, kTemperatureMargin, kTemperatureSlowdown, kTemperatureShutdown, kFanSpeed,
  // Clocks and what throttles them.
  kSmClock, kMemoryClock, kGraphicsClock, kVideoClock, kSmClockMax, kMemoryClockMax, kGraphicsClockMax,
  kVideoClockMax, kPerformanceState, kClockEventReasons,
  kThrottlePower, kThrottleThermal, kThrottleSyncBoost, kThrottleBoardLimit, kThrottleLowUtilization,
  kThrottleReliability, kThrottleSwThermal, kThrottleHwThermal, kThrottleHwPowerBrake,
  // Links.
  kPcieTx, kPcieRx, kPcieTxRate, kPcieRxRate, kPcieGeneration, kPcieGenerationMax, kPcieWidth, kPcieWidthMax,
  kPcieReplays, kNvlinkTx, kNvlinkRx, kNvlinkErrors, kXgmiTx, kXgmiRx,
  // Health.
  kEccCorrected, kEccUncorrected, kEccCorrectedTotal, kEccUncorrectedTotal, kRetiredPagesSingleBit,
  kRetiredPagesDoubleBit, kRetiredPagesPending, kRemappedRowsCorrected, kRemappedRowsUncorrected,
  kRemappedRowsPending, kRemappedRowsFailed, kXidErrors, kXidLast, kRecoveryAction,
};
constexpr size_t kMetricCount = static_cast<size_t>(Metric::kRecoveryAction) + 1;
using MetricSet = std::bitset<kMetricCount>;   // by position in the enumeration

enum class MetricKind : uint8_t {
  kGauge,     ///< holds until the next sample
  kCounter,   ///< only grows, except for resets and wraps: differences count, not values
  kConstant,  ///< a limit or a maximum, read once
};

struct MetricInfo {
  Metric metric;
  MetricKind kind;
  std::string_view name;             ///< ours, with its unit: "memory_used_bytes"
  std::string_view unit;             ///< for people: "%", "MiB" never; "B", "W", "J", "°C", "MHz", "ns", "" for counts
  std::string_view help;             ///< one clause
  std::string prometheus;            ///< "profgpu_memory_used_bytes"
  double prometheus_scale = 1;       ///< ours times this is Prometheus's base unit
  std::string_view smi = {};         ///< nvidia-smi's --query-gpu field; empty: none
  std::string_view smi_alias = {};   ///< an older name of it
  double smi_scale = 1;              ///< nvidia-smi's number times this is ours
};

const MetricInfo& metric_info(Metric metric);
/// All of them, in order of the enumeration.
const std::vector<MetricInfo>& metrics();
/// By our name or nvidia-smi's, old or new; null if there is none.
const MetricInfo* find_metric(std::string_view name);

/// Bits of Metric::kClockEventReasons, as NVML numbers them.
enum class ClockReason : uint32_t {
  kIdle = 1, kApplicationClocks = 2, kSwPowerCap = 4, kHwSlowdown = 8, kSyncBoost = 0x10, kSwThermal = 0x20,
  kHwThermal = 0x40, kHwPowerBrake = 0x80, kDisplayClocks = 0x100,
};
struct ClockReasonInfo {
  ClockReason reason;
  std::string_view name;   ///< "sw_power_cap"
  std::string_view words;  ///< "the power limit"
};
const std::vector<ClockReasonInfo>& clock_reasons();
constexpr uint32_t bits_of(std::initializer_list<ClockReason> reasons) {
  uint32_t bits = 0;
  for (const ClockReason r : reasons) bits |= static_cast<uint32_t>(r);
  return bits;
}
/// Reasons that throttle clocks: neither idleness nor application clocks.
constexpr uint32_t kHeldBackReasons =
    bits_of({ClockReason::kSwPowerCap, ClockReason::kHwSlowdown, ClockReason::kSyncBoost, ClockReason::kSwThermal,
             ClockReason::kHwThermal, ClockReason::kHwPowerBrake});

}  // namespace profgpu
