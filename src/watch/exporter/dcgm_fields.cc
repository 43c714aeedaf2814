#include "watch/exporter/dcgm_fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "devices/system_files.h"

namespace profgpu {
namespace {

using enum DcgmField::Form;
constexpr SeriesType kGauge = SeriesType::kGauge, kCounter = SeriesType::kCounter;
constexpr double kToMiB = 1.0 / (1 << 20);
constexpr std::string_view kDriverVersion = "DCGM_FI_DRIVER_VERSION",
                           kNewDriverVersion = "DCGM_FI_SYSTEM_DRIVER_VERSION";

// clang-format off
const std::vector<DcgmField> kFields = {
    {"DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_SM_CLOCK", true, kGauge, "SM clock frequency (in MHz).", Metric::kSmClock},
    {"DCGM_FI_DEV_MEM_CLOCK", "DCGM_FI_DEV_MEM_CLOCK", true, kGauge, "Memory clock frequency (in MHz).",
     Metric::kMemoryClock},
    {"DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS", true, kGauge, "Memory temperature (in C).",
     Metric::kMemoryTemperature},
    {"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS", true, kGauge, "GPU temperature (in C).",
     Metric::kTemperature},
    {"DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS", true, kGauge, "Power draw (in W).",
     Metric::kPower, 1, kReal},
    {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", true, kCounter,
     "Total energy consumption since boot (in mJ).", Metric::kEnergy, 1000},
    {"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "DCGM_FI_DEV_PCIE_REPLAY_TOTAL", true, kCounter,
     "Total number of PCIe retries.", Metric::kPcieReplays},
    {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO", true, kGauge, "GPU utilization (in %).",
     Metric::kUtilization},
    {"DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL", true, kGauge, "Memory utilization (in %).",
     Metric::kMemoryUtilization},
    {"DCGM_FI_DEV_ENC_UTIL", "DCGM_FI_DEV_ENC_UTIL", true, kGauge, "Encoder utilization (in %).",
     Metric::kEncoderUtilization},
    {"DCGM_FI_DEV_DEC_UTIL", "DCGM_FI_DEV_DEC_UTIL", true, kGauge, "Decoder utilization (in %).",
     Metric::kDecoderUtilization},
    {"DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR", true, kGauge, "Value of the last XID error encountered.",
     Metric::kXidErrors, 1, kXid},
    {"DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_FREE", true, kGauge, "Framebuffer memory free (in MiB).",
     Metric::kMemoryFree, kToMiB},
    {"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_USED", true, kGauge, "Framebuffer memory used (in MiB).",
     Metric::kMemoryUsed, kToMiB},
    {"DCGM_FI_DEV_FB_RESERVED", "DCGM_FI_DEV_FB_RESERVED", true, kGauge, "Framebuffer memory reserved (in MiB).",
     Metric::kMemoryReserved, kToMiB},
    {"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL", true, kCounter,
     "Total number of NVLink bandwidth counters for all lanes.", Metric::kNvlinkTx, 1, kNvlinkRate},
    {"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", true, kCounter,
     "Number of remapped rows for uncorrectable errors", Metric::kRemappedRowsUncorrected},
    {"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL", true, kCounter,
     "Number of remapped rows for correctable errors", Metric::kRemappedRowsCorrected},
    {"DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_FAILED", true, kGauge,
     "Whether remapping of rows has failed", Metric::kRemappedRowsFailed},
    {"DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", true, kGauge,
     "Ratio of time the graphics engine is active.",
     Metric::kGraphicsActive, 0.01, kReal},
    {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_TENSOR_UTIL_RATIO", true, kGauge,
     "Ratio of cycles the tensor (HMMA) pipe is active.",
     Metric::kTensorActive, 0.01, kReal},
    {"DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_DRAM_UTIL_RATIO", true, kGauge,
     "Ratio of cycles the device memory interface is active sending or receiving data.",
     Metric::kDramActive, 0.01, kReal},
    {"DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_TX_BYTES", true, kGauge,
     "The rate of data transmitted over the PCIe bus - including both protocol headers and data payloads - in bytes per second.",
     Metric::kPcieTx, 1, kRate},
    {"DCGM_FI_PROF_PCIE_RX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES", true, kGauge,
     "The rate of data received over the PCIe bus - including both protocol headers and data payloads - in bytes per second.",
     Metric::kPcieRx, 1, kRate},
    {"DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_UTIL_RATIO", false, kGauge,
     "The ratio of cycles an SM has at least 1 warp assigned.", Metric::kSmActive, 0.01, kReal},
    {"DCGM_FI_PROF_SM_OCCUPANCY", "DCGM_FI_PROF_SM_OCCUPANCY_RATIO", false, kGauge,
     "The ratio of number of warps resident on an SM.", Metric::kSmOccupancy, 0.01, kReal},
    {"DCGM_FI_PROF_PIPE_FP64_ACTIVE", "DCGM_FI_PROF_FP64_UTIL_RATIO", false, kGauge,
     "Ratio of cycles the fp64 pipes are active.", Metric::kFp64Active, 0.01, kReal},
    {"DCGM_FI_PROF_PIPE_FP32_ACTIVE", "DCGM_FI_PROF_FP32_UTIL_RATIO", false, kGauge,
     "Ratio of cycles the fp32 pipes are active.", Metric::kFp32Active, 0.01, kReal},
    {"DCGM_FI_PROF_PIPE_FP16_ACTIVE", "DCGM_FI_PROF_FP16_UTIL_RATIO", false, kGauge,
     "Ratio of cycles the fp16 pipes are active.", Metric::kFp16Active, 0.01, kReal},
    {"DCGM_FI_PROF_NVLINK_TX_BYTES", "DCGM_FI_PROF_NVLINK_TX_BYTES", false, kGauge,
     "The rate of data transmitted over NVLink in bytes per second.", Metric::kNvlinkTx, 1, kRate},
    {"DCGM_FI_PROF_NVLINK_RX_BYTES", "DCGM_FI_PROF_NVLINK_RX_BYTES", false, kGauge,
     "The rate of data received over NVLink in bytes per second.", Metric::kNvlinkRx, 1, kRate},
    {"DCGM_FI_DEV_POWER_VIOLATION", "DCGM_FI_DEV_POWER_VIOLATION", false, kCounter,
     "Throttling duration due to power constraints (in ns).", Metric::kThrottlePower},
    {"DCGM_FI_DEV_THERMAL_VIOLATION", "DCGM_FI_DEV_THERMAL_VIOLATION", false, kCounter,
     "Throttling duration due to thermal constraints (in ns).", Metric::kThrottleThermal},
    {"DCGM_FI_DEV_SYNC_BOOST_VIOLATION", "DCGM_FI_DEV_SYNC_BOOST_VIOLATION", false, kCounter,
     "Throttling duration due to sync-boost constraints (in ns).", Metric::kThrottleSyncBoost},
    {"DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", false, kCounter,
     "Throttling duration due to board limit constraints (in ns).", Metric::kThrottleBoardLimit},
    {"DCGM_FI_DEV_LOW_UTIL_VIOLATION", "DCGM_FI_DEV_LOW_UTIL_VIOLATION", false, kCounter,
     "Throttling duration due to low utilization (in ns).", Metric::kThrottleLowUtilization},
    {"DCGM_FI_DEV_RELIABILITY_VIOLATION", "DCGM_FI_DEV_RELIABILITY_VIOLATION", false, kCounter,
     "Throttling duration due to reliability constraints (in ns).", Metric::kThrottleReliability},
    {"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", false, kCounter,
     "Total number of single-bit volatile ECC errors.", Metric::kEccCorrected},
    {"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", false, kCounter,
     "Total number of double-bit volatile ECC errors.", Metric::kEccUncorrected},
    {"DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", false, kCounter,
     "Total number of single-bit persistent ECC errors.", Metric::kEccCorrectedTotal},
    {"DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", false, kCounter,
     "Total number of double-bit persistent ECC errors.", Metric::kEccUncorrectedTotal},
    {"DCGM_FI_DEV_RETIRED_SBE", "DCGM_FI_DEV_PAGE_RETIRED_SBE", false, kCounter,
     "Total number of retired pages due to single-bit errors.", Metric::kRetiredPagesSingleBit},
    {"DCGM_FI_DEV_RETIRED_DBE", "DCGM_FI_DEV_PAGE_RETIRED_DBE", false, kCounter,
     "Total number of retired pages due to double-bit errors.", Metric::kRetiredPagesDoubleBit},
    {"DCGM_FI_DEV_RETIRED_PENDING", "DCGM_FI_DEV_PAGE_RETIRED_PENDING", false, kCounter,
     "Total number of pages pending retirement.", Metric::kRetiredPagesPending},
    {"DCGM_FI_DEV_FB_TOTAL", "DCGM_FI_DEV_FB_TOTAL", false, kGauge, "Framebuffer memory total (in MiB).",
     Metric::kMemoryTotal, kToMiB},
    {"DCGM_FI_DEV_FB_USED_PERCENT", "DCGM_FI_DEV_FB_USED_RATIO", false, kGauge,
     "Framebuffer memory used of what is not reserved (0 to 1).", Metric::kMemoryUsed, 1, kUsedRatio},
    {"DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", false, kGauge,
     "Current clock event reasons (bitmask).", Metric::kClockEventReasons},
    {"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", false, kGauge,
     "Current clock throttle reasons (bitmask).", Metric::kClockEventReasons},
    {"DCGM_FI_DEV_POWER_MGMT_LIMIT", "DCGM_FI_DEV_POWER_MGMT_LIMIT", false, kGauge, "Power management limit (in W).",
     Metric::kPowerLimit, 1, kReal},
    {"DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "DCGM_FI_DEV_ENFORCED_POWER_LIMIT", false, kGauge,
     "Power limit in force (in W).", Metric::kPowerLimit, 1, kReal},
    {"DCGM_FI_DEV_FAN_SPEED", "DCGM_FI_DEV_FAN_SPEED", false, kGauge, "Fan speed (in %).", Metric::kFanSpeed},
    {"DCGM_FI_DEV_PSTATE", "DCGM_FI_DEV_PSTATE", false, kGauge, "Performance tally (0 is the fastest).",
     Metric::kPerformanceState},
};
// clang-format on

std::optional<double> rate_of(Metric counter, const DeviceTally& tally, int64_t now_ns) {
  if (counter == Metric::kPcieTx || counter == Metric::kPcieRx) {
    const Metric rate = counter == Metric::kPcieTx ? Metric::kPcieTxRate : Metric::kPcieRxRate;
    if (const auto said = tally.value(rate, now_ns)) return said;
  }
  return tally.per_second(counter, now_ns);
}

std::optional<double> number_of(const DcgmField& field, const DeviceTally& tally, int64_t now_ns) {
  const auto value = tally.value(field.metric, now_ns);
  switch (field.form) {
    case kWhole:
    case kReal:
      return value ? std::optional(*value * field.scale) : std::nullopt;
    case kRate:
      return rate_of(field.metric, tally, now_ns);
    case kNvlinkRate: {
      const auto tx = tally.per_second(Metric::kNvlinkTx, now_ns), rx = tally.per_second(Metric::kNvlinkRx, now_ns);
      return tx && rx ? std::optional((*tx + *rx) / 1024 / 1000) : std::nullopt;
    }
    case kXid:
      // Of a device that has gone silent too: that is what it is about.
      return tally.said(Metric::kXidErrors) ? tally.value(Metric::kXidLast, now_ns).value_or(0)
                                            : std::optional<double>();
    case kUsedRatio: {
      const auto total = tally.value(Metric::kMemoryTotal, now_ns);
      const double room = total.value_or(0) - tally.value(Metric::kMemoryReserved, now_ns).value_or(0);
      return value && room > 0 ? std::optional(*value / room) : std::nullopt;
    }
  }
  return std::nullopt;
}

// A cell of CSV: quotes around it are no part of it.
std::string cell(std::string_view text) {
  text = without_blanks(text);
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return std::string(text);
  std::string out;
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    out += text[i];
    if (text[i] == '"' && text[i + 1] == '"') ++i;
  }
  return out;
}

Status add_line(std::string_view line, DcgmCounters& out) {
  const size_t first = line.find(','), second = first == line.npos ? first : line.find(',', first + 1);
  if (second == line.npos) return Error{fmt::format("\"{}\" is not FIELD, type, help", line.substr(0, 80))};
  const std::string name = cell(line.substr(0, first)), type = cell(line.substr(first + 1, second - first - 1));
  const std::string help = cell(line.substr(second + 1));
  if (type != "gauge" && type != "counter" && type != "label" && type != "histogram" && type != "summary")
    return Error{fmt::format("\"{}\" is no type", type), "gauge, counter or label"};
  if (type == "label" && (name == kDriverVersion || name == kNewDriverVersion)) {
    out.driver_label = true;
    return ok();
  }
  const DcgmField* field = type == "gauge" || type == "counter" ? find_dcgm_field(name) : nullptr;
  const bool twice =
      std::any_of(out.counters.begin(), out.counters.end(), [&](const DcgmCounter& c) { return c.field == field; });
  if (!field)
    out.left_out.push_back(name);
  else if (!twice)
    out.counters.push_back({field, type == "counter" ? kCounter : kGauge, help});
  return ok();
}

}  // namespace

const std::vector<DcgmField>& dcgm_fields() { return kFields; }

bool of_whole_gpu(Metric metric) {
  return metric == Metric::kEnergy || metric == Metric::kPcieTx || metric == Metric::kPcieRx ||
         metric == Metric::kPcieTxRate || metric == Metric::kPcieRxRate || metric == Metric::kNvlinkTx ||
         metric == Metric::kNvlinkRx;
}

const DcgmField* find_dcgm_field(std::string_view name) {
  for (const DcgmField& f : kFields)
    if (name == f.name || name == f.new_name) return &f;
  return nullptr;
}

std::optional<std::string> dcgm_text(const DcgmField& field, const DeviceTally& tally, int64_t now_ns) {
  const auto number = number_of(field, tally, now_ns);
  if (!number) return std::nullopt;
  const bool real = field.form == kReal || field.form == kUsedRatio;
  return real ? fmt::format("{:f}", *number)
              : fmt::format("{}", static_cast<int64_t>(*number + 1e-6));  // 0.001 J × 1000 is 1 mJ
}

DcgmCounters default_dcgm_counters() {
  DcgmCounters out;
  out.driver_label = true;
  for (const DcgmField& f : kFields)
    if (f.by_default) out.counters.push_back({&f, f.type, std::string(f.help)});
  return out;
}

Result<DcgmCounters> parse_dcgm_counters(std::string_view text) {
  DcgmCounters out;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = without_blanks(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (line.empty() || line.front() == '#') continue;
    if (auto added = add_line(line, out); !added) return added.error().within(fmt::format("line {}", number));
  }
  if (out.counters.empty() && out.left_out.empty())
    return Error{"it names no field", "one a line: DCGM_FI_DEV_GPU_TEMP, gauge, GPU temperature (in C)."};
  return out;
}

}  // namespace profgpu
