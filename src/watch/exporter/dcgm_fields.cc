#include "watch/exporter/dcgm_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/csv.h"
#include "base/secrets.h"
#include "base/text.h"

namespace profgpu {
namespace {

using enum DcgmField::Form;
constexpr SeriesType kGauge = SeriesType::kGauge, kCounter = SeriesType::kCounter;
constexpr double kToMiB = 1.0 / (1 << 20);
constexpr std::string_view kDriverVersion = "DCGM_FI_DRIVER_VERSION",
                           kNewDriverVersion = "DCGM_FI_SYSTEM_DRIVER_VERSION";

constexpr size_t kDefaults = 24;   // the first ones are in dcgm-exporter's default counters

std::optional<double> rate_of(Metric counter, const DeviceTally& tally, int64_t now_ns) {
  if (counter == Metric::kPcieTx || counter == Metric::kPcieRx) {
    const Metric rate = counter == Metric::kPcieTx ? Metric::kPcieTxRate : Metric::kPcieRxRate;
    if (const auto gauge = tally.value(rate, now_ns)) return gauge;
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
      // Also of a device that no longer answers: the error may be why.
      if (!tally.reported(Metric::kXidErrors)) return std::nullopt;
      return tally.value(Metric::kXidLast, now_ns).value_or(0);
    case kUsedRatio: {
      const auto total = tally.value(Metric::kMemoryTotal, now_ns);
      const double room = total.value_or(0) - tally.value(Metric::kMemoryReserved, now_ns).value_or(0);
      return value && room > 0 ? std::optional(*value / room) : std::nullopt;
    }
  }
  return std::nullopt;
}

// A cell of CSV. The last one may have commas without quotes.
std::string cell(std::string_view text) {
  text = without_blanks(text);
  CsvFields csv;
  return std::string(text.starts_with('"') && csv.split(text) ? csv.fields().front() : text);
}

Status add_line(std::string_view line, DcgmCounters& out) {
  const size_t first = line.find(','), second = first == line.npos ? first : line.find(',', first + 1);
  if (second == line.npos) return Error{fmt::format("\"{}\" is not FIELD, type, help", masked_secrets(line).substr(0, 80))};
  const std::string name = cell(line.substr(0, first)), type = cell(line.substr(first + 1, second - first - 1));
  const std::string help = valid_utf8(cell(line.substr(second + 1)));   // Prometheus refuses a page with other bytes
  if (type != "gauge" && type != "counter" && type != "label" && type != "histogram" && type != "summary")
    return Error{fmt::format("\"{}\" is not a type", type), "gauge, counter or label"};
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

// clang-format off
const std::vector<DcgmField>& dcgm_fields() {
  using enum Metric;
  static const std::vector<DcgmField> kFields = {
      {kSmClock, kGauge, "DCGM_FI_DEV_SM_CLOCK", "", "SM clock frequency (in MHz)."},
      {kMemoryClock, kGauge, "DCGM_FI_DEV_MEM_CLOCK", "", "Memory clock frequency (in MHz)."},
      {kMemoryTemperature, kGauge, "DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS",
       "Memory temperature (in C)."},
      {kTemperature, kGauge, "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS", "GPU temperature (in C)."},
      {kPower, kGauge, "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS", "Power draw (in W).", 1, kReal},
      {kEnergy, kCounter, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "",
       "Total energy consumption since boot (in mJ).", 1000},
      {kPcieReplays, kCounter, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "DCGM_FI_DEV_PCIE_REPLAY_TOTAL",
       "Total number of PCIe retries."},
      {kUtilization, kGauge, "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO", "GPU utilization (in %)."},
      {kMemoryUtilization, kGauge, "DCGM_FI_DEV_MEM_COPY_UTIL", "", "Memory utilization (in %)."},
      {kEncoderUtilization, kGauge, "DCGM_FI_DEV_ENC_UTIL", "", "Encoder utilization (in %)."},
      {kDecoderUtilization, kGauge, "DCGM_FI_DEV_DEC_UTIL", "", "Decoder utilization (in %)."},
      {kXidErrors, kGauge, "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR",
       "Value of the last XID error encountered.", 1, kXid},
      {kMemoryFree, kGauge, "DCGM_FI_DEV_FB_FREE", "", "Framebuffer memory free (in MiB).", kToMiB},
      {kMemoryUsed, kGauge, "DCGM_FI_DEV_FB_USED", "", "Framebuffer memory used (in MiB).", kToMiB},
      {kMemoryReserved, kGauge, "DCGM_FI_DEV_FB_RESERVED", "", "Framebuffer memory reserved (in MiB).", kToMiB},
      {kNvlinkTx, kCounter, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL",
       "Total number of NVLink bandwidth counters for all lanes.", 1, kNvlinkRate},
      {kRemappedRowsUncorrected, kCounter, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
       "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", "Number of remapped rows for uncorrectable errors"},
      {kRemappedRowsCorrected, kCounter, "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
       "DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL", "Number of remapped rows for correctable errors"},
      {kRemappedRowsFailed, kGauge, "DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_FAILED",
       "Whether remapping of rows has failed"},
      {kGraphicsActive, kGauge, "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO",
       "Ratio of time the graphics engine is active.", 0.01, kReal},
      {kTensorActive, kGauge, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_TENSOR_UTIL_RATIO",
       "Ratio of cycles the tensor (HMMA) pipe is active.", 0.01, kReal},
      {kDramActive, kGauge, "DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_DRAM_UTIL_RATIO",
       "Ratio of cycles the device memory interface is active sending or receiving data.", 0.01, kReal},
      {kPcieTx, kGauge, "DCGM_FI_PROF_PCIE_TX_BYTES", "",
       "The rate of data transmitted over the PCIe bus - including both protocol headers and data payloads - in bytes per second.",
       1, kRate},
      {kPcieRx, kGauge, "DCGM_FI_PROF_PCIE_RX_BYTES", "",
       "The rate of data received over the PCIe bus - including both protocol headers and data payloads - in bytes per second.",
       1, kRate},
      {kSmActive, kGauge, "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_UTIL_RATIO",
       "The ratio of cycles an SM has at least 1 warp assigned.", 0.01, kReal},
      {kSmOccupancy, kGauge, "DCGM_FI_PROF_SM_OCCUPANCY", "DCGM_FI_PROF_SM_OCCUPANCY_RATIO",
       "The ratio of number of warps resident on an SM.", 0.01, kReal},
      {kFp64Active, kGauge, "DCGM_FI_PROF_PIPE_FP64_ACTIVE", "DCGM_FI_PROF_FP64_UTIL_RATIO",
       "Ratio of cycles the fp64 pipes are active.", 0.01, kReal},
      {kFp32Active, kGauge, "DCGM_FI_PROF_PIPE_FP32_ACTIVE", "DCGM_FI_PROF_FP32_UTIL_RATIO",
       "Ratio of cycles the fp32 pipes are active.", 0.01, kReal},
      {kFp16Active, kGauge, "DCGM_FI_PROF_PIPE_FP16_ACTIVE", "DCGM_FI_PROF_FP16_UTIL_RATIO",
       "Ratio of cycles the fp16 pipes are active.", 0.01, kReal},
      {kNvlinkTx, kGauge, "DCGM_FI_PROF_NVLINK_TX_BYTES", "",
       "The rate of data transmitted over NVLink in bytes per second.", 1, kRate},
      {kNvlinkRx, kGauge, "DCGM_FI_PROF_NVLINK_RX_BYTES", "",
       "The rate of data received over NVLink in bytes per second.", 1, kRate},
      {kThrottlePower, kCounter, "DCGM_FI_DEV_POWER_VIOLATION", "",
       "Throttling duration due to power constraints (in ns)."},
      {kThrottleThermal, kCounter, "DCGM_FI_DEV_THERMAL_VIOLATION", "",
       "Throttling duration due to thermal constraints (in ns)."},
      {kThrottleSyncBoost, kCounter, "DCGM_FI_DEV_SYNC_BOOST_VIOLATION", "",
       "Throttling duration due to sync-boost constraints (in ns)."},
      {kThrottleBoardLimit, kCounter, "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", "",
       "Throttling duration due to board limit constraints (in ns)."},
      {kThrottleLowUtilization, kCounter, "DCGM_FI_DEV_LOW_UTIL_VIOLATION", "",
       "Throttling duration due to low utilization (in ns)."},
      {kThrottleReliability, kCounter, "DCGM_FI_DEV_RELIABILITY_VIOLATION", "",
       "Throttling duration due to reliability constraints (in ns)."},
      {kEccCorrected, kCounter, "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "", "Total number of single-bit volatile ECC errors."},
      {kEccUncorrected, kCounter, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "",
       "Total number of double-bit volatile ECC errors."},
      {kEccCorrectedTotal, kCounter, "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", "",
       "Total number of single-bit persistent ECC errors."},
      {kEccUncorrectedTotal, kCounter, "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", "",
       "Total number of double-bit persistent ECC errors."},
      {kRetiredPagesSingleBit, kCounter, "DCGM_FI_DEV_RETIRED_SBE", "DCGM_FI_DEV_PAGE_RETIRED_SBE",
       "Total number of retired pages due to single-bit errors."},
      {kRetiredPagesDoubleBit, kCounter, "DCGM_FI_DEV_RETIRED_DBE", "DCGM_FI_DEV_PAGE_RETIRED_DBE",
       "Total number of retired pages due to double-bit errors."},
      {kRetiredPagesPending, kCounter, "DCGM_FI_DEV_RETIRED_PENDING", "DCGM_FI_DEV_PAGE_RETIRED_PENDING",
       "Total number of pages pending retirement."},
      {kMemoryTotal, kGauge, "DCGM_FI_DEV_FB_TOTAL", "", "Framebuffer memory total (in MiB).", kToMiB},
      {kMemoryUsed, kGauge, "DCGM_FI_DEV_FB_USED_PERCENT", "DCGM_FI_DEV_FB_USED_RATIO",
       "Framebuffer memory used, as a share of unreserved memory (0 to 1).", 1, kUsedRatio},
      {kClockEventReasons, kGauge, "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "", "Current clock event reasons (bitmask)."},
      {kClockEventReasons, kGauge, "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "",
       "Current clock throttle reasons (bitmask)."},
      {kPowerLimit, kGauge, "DCGM_FI_DEV_POWER_MGMT_LIMIT", "", "Power management limit (in W).", 1, kReal},
      {kPowerLimit, kGauge, "DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "", "Power limit in force (in W).", 1, kReal},
      {kFanSpeed, kGauge, "DCGM_FI_DEV_FAN_SPEED", "", "Fan speed (in %)."},
      {kPerformanceState, kGauge, "DCGM_FI_DEV_PSTATE", "", "Performance state (0 is the fastest)."},
  };
  return kFields;
}
// clang-format on

bool of_whole_gpu(Metric metric) {
  using enum Metric;
  constexpr Metric kOfWhole[] = {kEnergy, kPcieTx, kPcieRx, kPcieTxRate, kPcieRxRate, kNvlinkTx, kNvlinkRx};
  return std::ranges::find(kOfWhole, metric) != std::end(kOfWhole);
}

const DcgmField* find_dcgm_field(std::string_view name) {
  for (const DcgmField& f : dcgm_fields())
    if (name == f.name || name == f.name_in(DcgmNames::kNew)) return &f;
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
  for (const DcgmField& f : std::span(dcgm_fields()).first(kDefaults))
    out.counters.push_back({&f, f.type, std::string(f.help)});
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
    return Error{"it names no field", "one per line: DCGM_FI_DEV_GPU_TEMP, gauge, GPU temperature (in C)."};
  return out;
}

}  // namespace profgpu
