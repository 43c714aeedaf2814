#include "trace/metric.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace profgpu {
namespace {

using enum Metric;
using enum MetricKind;

struct Row {
  Metric metric;
  MetricKind kind;
  std::string_view name, help, smi = {}, smi_alias = {};
};

// clang-format off
constexpr Row kRows[] = {
    {kUtilization, kGauge, "utilization_pct", "time with at least one kernel running", "utilization.gpu"},
    {kMemoryUtilization, kGauge, "memory_utilization_pct",
     "time that device memory was read or written", "utilization.memory"},
    {kEncoderUtilization, kGauge, "encoder_utilization_pct", "time that the video encoder ran", "utilization.encoder"},
    {kDecoderUtilization, kGauge, "decoder_utilization_pct", "time that the video decoder ran", "utilization.decoder"},
    {kJpegUtilization, kGauge, "jpeg_utilization_pct", "time that the JPEG engine ran", "utilization.jpeg"},
    {kOfaUtilization, kGauge, "ofa_utilization_pct", "time that the optical flow engine ran", "utilization.ofa"},
    {kGraphicsActive, kGauge, "graphics_active_pct", "time that the compute and graphics engine was active"},
    {kSmActive, kGauge, "sm_active_pct", "multiprocessors with at least one warp, mean over time and multiprocessors"},
    {kSmOccupancy, kGauge, "sm_occupancy_pct", "resident warps, of the most possible"},
    {kTensorActive, kGauge, "tensor_active_pct", "cycles in which a tensor pipe was active"},
    {kDramActive, kGauge, "dram_active_pct", "cycles in which device memory moved data"},
    {kFp64Active, kGauge, "fp64_active_pct", "cycles in which the double-precision pipe was active"},
    {kFp32Active, kGauge, "fp32_active_pct", "cycles in which the single-precision pipe was active"},
    {kFp16Active, kGauge, "fp16_active_pct", "cycles in which the half-precision pipe (tensor aside) was active"},
    {kMemoryTotal, kConstant, "memory_total_bytes", "device memory", "memory.total"},
    {kMemoryUsed, kGauge, "memory_used_bytes", "memory held by programs", "memory.used"},
    {kMemoryFree, kGauge, "memory_free_bytes", "free memory", "memory.free"},
    {kMemoryReserved, kGauge, "memory_reserved_bytes", "memory reserved by driver and firmware", "memory.reserved"},
    {kBar1Total, kConstant, "bar1_total_bytes", "memory that the host can map"},
    {kBar1Used, kGauge, "bar1_used_bytes", "mapped memory in use"},
    {kPower, kGauge, "power_w",
     "power draw, averaged by the driver (over 1 s on most devices)", "power.draw", "power.draw.average"},
    {kPowerInstant, kGauge, "power_instant_w",
     "power draw, latest sensor reading", "power.draw.instant", "gpu.power.draw.instant"},
    {kEnergy, kCounter, "energy_j", "energy since the driver was loaded"},
    {kPowerLimit, kGauge, "power_limit_w", "power limit in force", "enforced.power.limit", "power.limit"},
    {kPowerLimitDefault, kConstant, "power_limit_default_w",
     "power limit after a reset", "power.default_limit", "gpu.power.default_limit"},
    {kPowerLimitMin, kConstant, "power_limit_min_w",
     "lowest power limit allowed", "power.min_limit", "gpu.power.min_limit"},
    {kPowerLimitMax, kConstant, "power_limit_max_w",
     "highest power limit allowed", "power.max_limit", "gpu.power.max_limit"},
    {kTemperature, kGauge, "temperature_c", "core temperature", "temperature.gpu"},
    {kMemoryTemperature, kGauge, "memory_temperature_c", "memory temperature", "temperature.memory"},
    {kTemperatureMargin, kGauge, "temperature_margin_c",
     "degrees left before clocks are lowered", "temperature.gpu.tlimit"},
    {kTemperatureSlowdown, kConstant, "temperature_slowdown_c", "core temperature at which clocks are lowered"},
    {kTemperatureShutdown, kConstant, "temperature_shutdown_c", "core temperature at which the device shuts down"},
    {kFanSpeed, kGauge, "fan_speed_pct", "fan speed, of the maximum", "fan.speed"},
    {kSmClock, kGauge, "sm_clock_mhz", "clock of the multiprocessors", "clocks.current.sm", "clocks.sm"},
    {kMemoryClock, kGauge, "memory_clock_mhz", "clock of the memory", "clocks.current.memory", "clocks.mem"},
    {kGraphicsClock, kGauge, "graphics_clock_mhz",
     "clock of the graphics engine", "clocks.current.graphics", "clocks.gr"},
    {kVideoClock, kGauge, "video_clock_mhz", "clock of the video engines", "clocks.current.video", "clocks.video"},
    {kSmClockMax, kConstant, "sm_clock_max_mhz", "highest clock of the multiprocessors", "clocks.max.sm"},
    {kMemoryClockMax, kConstant, "memory_clock_max_mhz",
     "highest clock of the memory", "clocks.max.memory", "clocks.max.mem"},
    {kGraphicsClockMax, kConstant, "graphics_clock_max_mhz",
     "highest clock of the graphics engine", "clocks.max.graphics", "clocks.max.gr"},
    {kVideoClockMax, kConstant, "video_clock_max_mhz", "highest clock of the video engines"},
    {kPerformanceState, kGauge, "performance_state", "0 (fastest) to 15", "pstate"},
    {kClockEventReasons, kGauge, "clock_event_reasons",
     "bit mask of what limits the clocks", "clocks_event_reasons.active", "clocks_throttle_reasons.active"},
    {kThrottlePower, kCounter, "throttle_power_ns",
     "time that the power limit held clocks back", "clocks_event_reasons_counters.sw_power_cap"},
    {kThrottleThermal, kCounter, "throttle_thermal_ns", "time that temperature held clocks back"},
    {kThrottleSyncBoost, kCounter, "throttle_sync_boost_ns",
     "time that a synchronized group held clocks back", "clocks_event_reasons_counters.sync_boost"},
    {kThrottleBoardLimit, kCounter, "throttle_board_limit_ns", "time that a limit of the board held clocks back"},
    {kThrottleLowUtilization, kCounter, "throttle_low_utilization_ns", "time that clocks were low for lack of work"},
    {kThrottleReliability, kCounter, "throttle_reliability_ns", "time that the voltage limit held clocks back"},
    {kThrottleSwThermal, kCounter, "throttle_sw_thermal_ns",
     "time that the driver lowered clocks for temperature", "clocks_event_reasons_counters.sw_thermal_slowdown"},
    {kThrottleHwThermal, kCounter, "throttle_hw_thermal_ns",
     "time that the hardware halved clocks for temperature", "clocks_event_reasons_counters.hw_thermal_slowdown"},
    {kThrottleHwPowerBrake, kCounter, "throttle_hw_power_brake_ns",
     "time that the system's power brake halved clocks", "clocks_event_reasons_counters.hw_power_brake_slowdown"},
    {kPcieTx, kCounter, "pcie_tx_bytes", "sent by the device over PCIe"},
    {kPcieRx, kCounter, "pcie_rx_bytes", "received by the device over PCIe"},
    {kPcieTxRate, kGauge, "pcie_tx_bytes_per_second", "sent by the device over PCIe"},
    {kPcieRxRate, kGauge, "pcie_rx_bytes_per_second", "received by the device over PCIe"},
    {kPcieGeneration, kGauge, "pcie_generation",
     "PCIe generation now (lower when idle)", "pcie.link.gen.gpucurrent", "pcie.link.gen.current"},
    {kPcieGenerationMax, kConstant, "pcie_generation_max",
     "highest PCIe generation of device and slot", "pcie.link.gen.max"},
    {kPcieWidth, kGauge, "pcie_width", "PCIe lanes now", "pcie.link.width.current"},
    {kPcieWidthMax, kConstant, "pcie_width_max", "PCIe lanes of device and slot", "pcie.link.width.max"},
    {kPcieReplays, kCounter, "pcie_replays", "PCIe packets retransmitted"},
    {kNvlinkTx, kCounter, "nvlink_tx_bytes", "data sent over all NVLinks"},
    {kNvlinkRx, kCounter, "nvlink_rx_bytes", "data received over all NVLinks"},
    {kNvlinkErrors, kCounter, "nvlink_errors", "NVLink replays, recoveries and CRC errors"},
    {kXgmiTx, kCounter, "xgmi_tx_bytes", "data sent over all XGMI links"},
    {kXgmiRx, kCounter, "xgmi_rx_bytes", "data received over all XGMI links"},
    {kEccCorrected, kCounter, "ecc_corrected_errors",
     "memory errors corrected since the driver was loaded", "ecc.errors.corrected.volatile.total"},
    {kEccUncorrected, kCounter, "ecc_uncorrected_errors",
     "memory errors not corrected since the driver was loaded", "ecc.errors.uncorrected.volatile.total"},
    {kEccCorrectedTotal, kCounter, "ecc_corrected_errors_lifetime",
     "memory errors corrected over the device's lifetime", "ecc.errors.corrected.aggregate.total"},
    {kEccUncorrectedTotal, kCounter, "ecc_uncorrected_errors_lifetime",
     "memory errors not corrected over the device's lifetime", "ecc.errors.uncorrected.aggregate.total"},
    {kRetiredPagesSingleBit, kGauge, "retired_pages_single_bit",
     "memory pages retired for repeated single-bit errors", "retired_pages.single_bit_ecc.count", "retired_pages.sbe"},
    {kRetiredPagesDoubleBit, kGauge, "retired_pages_double_bit",
     "memory pages retired for a double-bit error", "retired_pages.double_bit.count", "retired_pages.dbe"},
    {kRetiredPagesPending, kGauge, "retired_pages_pending",
     "memory pages retired at the next reboot", "retired_pages.pending"},
    {kRemappedRowsCorrected, kGauge, "remapped_rows_corrected",
     "memory rows remapped for correctable errors", "remapped_rows.correctable"},
    {kRemappedRowsUncorrected, kGauge, "remapped_rows_uncorrected",
     "memory rows remapped for uncorrectable errors", "remapped_rows.uncorrectable"},
    {kRemappedRowsPending, kGauge, "remapped_rows_pending",
     "1: rows will be remapped at the next reset", "remapped_rows.pending"},
    {kRemappedRowsFailed, kGauge, "remapped_rows_failed",
     "1: remapping a row failed; replace the device", "remapped_rows.failure"},
    {kXidErrors, kCounter, "xid_errors", "errors reported by the driver (Xid) since sampling began"},
    {kXidLast, kGauge, "xid_last", "latest Xid code"},
    {kRecoveryAction, kGauge, "recovery_action",
     "0 none, 1 reset the device, 2 reboot, 3 drain peers, 4 drain and reset", "gpu_recovery_action"},
};
// clang-format on

/// The end of a metric's name says its unit, and with it how Prometheus and nvidia-smi count it.
struct Unit {
  std::string_view ending, unit, prometheus_ending;
  double prometheus_scale = 1, smi_scale = 1;
};
constexpr Unit kUnits[] = {
    {"_pct", "%", "_ratio", 0.01},
    {"_bytes", "B", "_bytes", 1, 1 << 20},
    {"_bytes_per_second", "B/s", "_bytes_per_second"},
    {"_w", "W", "_watts"},
    {"_j", "J", "_joules"},
    {"_c", "°C", "_celsius"},
    {"_mhz", "MHz", "_hertz", 1e6},
    {"_ns", "ns", "_seconds", 1e-9, 1e3},
};

MetricInfo described(const Row& row) {
  const auto* const known = std::find_if(std::begin(kUnits), std::end(kUnits),
                                         [&](const Unit& u) { return row.name.ends_with(u.ending); });
  const Unit unit = known == std::end(kUnits) ? Unit{} : *known;
  std::string prometheus = "profgpu_";
  prometheus.append(row.name.substr(0, row.name.size() - unit.ending.size())).append(unit.prometheus_ending);
  if (row.kind == kCounter) prometheus += "_total";
  return {row.metric, row.kind, row.name, unit.unit, row.help, std::move(prometheus), unit.prometheus_scale,
          row.smi, row.smi_alias, unit.smi_scale};
}

const std::vector<MetricInfo> kMetrics = [] {
  std::vector<MetricInfo> all;
  for (const Row& row : kRows) all.push_back(described(row));
  return all;
}();

}  // namespace

const std::vector<MetricInfo>& metrics() { return kMetrics; }

const MetricInfo& metric_info(Metric metric) { return kMetrics[static_cast<size_t>(metric)]; }

const MetricInfo* find_metric(std::string_view name) {
  if (name.empty()) return nullptr;
  for (const MetricInfo& m : kMetrics)
    if (name == m.name || name == m.smi || name == m.smi_alias) return &m;
  return nullptr;
}

const std::vector<ClockReasonInfo>& clock_reasons() {
  static const std::vector<ClockReasonInfo> kReasons = {
      {ClockReason::kIdle, "gpu_idle", "idleness"},
      {ClockReason::kApplicationClocks, "application_clocks", "application clocks"},
      {ClockReason::kSwPowerCap, "sw_power_cap", "the power limit"},
      {ClockReason::kHwSlowdown, "hw_slowdown", "hardware slowdown"},
      {ClockReason::kSyncBoost, "sync_boost", "sync boost"},
      {ClockReason::kSwThermal, "sw_thermal_slowdown", "temperature (driver)"},
      {ClockReason::kHwThermal, "hw_thermal_slowdown", "temperature (hardware)"},
      {ClockReason::kHwPowerBrake, "hw_power_brake_slowdown", "the power brake"},
      {ClockReason::kDisplayClocks, "display_clocks", "the display's clocks"},
  };
  return kReasons;
}

}  // namespace profgpu
