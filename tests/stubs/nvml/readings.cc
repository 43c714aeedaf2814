// What devices say about themselves at a time.
#include <algorithm>
#include <cmath>

#include "stage.h"

using namespace nvml_stub;

namespace {

struct FieldRow {
  uint32_t field;
  const char* key;
  double scale;   // ours times this is the driver's unit
};
constexpr FieldRow kFields[] = {
    {kEccSbeVolatile, "ecc_corrected", 1}, {kEccDbeVolatile, "ecc_uncorrected", 1},
    {kEccSbeLifetime, "ecc_corrected_lifetime", 1}, {kEccDbeLifetime, "ecc_uncorrected_lifetime", 1},
    {kRetiredSbe, "retired_single", 1}, {kRetiredDbe, "retired_double", 1}, {kRetiredPending, "retired_pending", 1},
    {kLinkReplay, "nvlink_errors", 1}, {kLinkSpeedMBps, "nvlink_speed", 1}, {kThrottlePower, "throttle_power", 1}, {kThrottleThermal, "throttle_thermal", 1},
    {kThrottleSyncBoost, "throttle_sync_boost", 1}, {kThrottleBoardLimit, "throttle_board_limit", 1},
    {kThrottleLowUtilization, "throttle_low_utilization", 1}, {kThrottleReliability, "throttle_reliability", 1},
    {kMemoryTemperature, "memory_temperature", 1}, {kPcieReplay, "pcie_replays", 1},
    {kLinkDataTx, "nvlink_tx", 1.0 / 1024}, {kLinkDataRx, "nvlink_rx", 1.0 / 1024},
    {kRemappedCorrected, "remapped_corrected", 1}, {kRemappedUncorrected, "remapped_uncorrected", 1},
    {kRemappedPending, "remapped_pending", 1}, {kRemappedFailed, "remapped_failed", 1},
    {kPowerAverage, "power", 1000}, {kPowerInstant, "power_instant", 1000}, {kPcieTxBytes, "pcie_tx", 1},
    {kPcieRxBytes, "pcie_rx", 1}, {kRecoveryAction, "recovery", 1}, {kThrottleSwThermal, "throttle_sw_thermal", 1},
    {kThrottleHwThermal, "throttle_hw_thermal", 1}, {kThrottleHwPowerBrake, "throttle_hw_power_brake", 1},
};

bool missing_field(uint32_t field) {
  const auto& all = scenario().missing;
  return !all.empty() && std::find(all.begin(), all.end(), "field:" + std::to_string(field)) != all.end();
}

void answer(Gpu& gpu, FieldValue& f) {
  const double now = seconds();
  f.time_us = static_cast<int64_t>(unix_us(now));
  f.latency_us = 1;
  f.type = kUlonglong;
  f.result = kNotSupported;
  if (missing_field(f.field) || gpu.parent) return;
  if (f.field == kTotalEnergy) {
    f.result = gpu.course("energy").code;
    f.value.u64 = f.result ? 0 : static_cast<uint64_t>(energy_of(gpu, now) * 1000);
    return;
  }
  for (const FieldRow& row : kFields) {
    if (row.field != f.field) continue;
    const Course* c = &gpu.course(row.key);
    if (c->kind == "same") c = &gpu.course("power");
    // Sums over links exist only under the scope of all links.
    if ((f.field == kLinkDataTx || f.field == kLinkDataRx) && f.scope != kAllLinks) return;
    f.result = c->code;
    const double value = std::max(c->at(now) * row.scale, 0.0);
    if (f.field == kPowerAverage || f.field == kPowerInstant || f.field == kMemoryTemperature) {
      f.type = kUint;
      f.value.u64 = 0xdeadbeef00000000;   // a real driver leaves the upper half alone
      f.value.u32 = static_cast<uint32_t>(value);
    } else {
      f.value.u64 = static_cast<uint64_t>(value);
    }
    return;
  }
}

}  // namespace

NVML_EXPORT Return nvmlDeviceGetFieldValues(Device d, int count, FieldValue* values) {
  NVML_ENTER(d);
  if (count <= 0 || !values) return kInvalidArgument;
  for (int i = 0; i < count; ++i) answer(*gpu_of(d), values[i]);
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetSamples(Device d, uint32_t type, uint64_t since_us, uint32_t* value_type,
                                        uint32_t* count, RingSample* out) {
  NVML_ENTER(d);
  if (type > kMemorySamples || gpu_of(d)->parent) return kNotSupported;
  const char* key = type == kPowerSamples ? "power" : type == kGpuSamples ? "utilization" : "memory_utilization";
  const Gpu& gpu = *gpu_of(d);
  const Ring& ring = gpu.rings.find(std::string_view(key))->second;
  const Course& course = gpu.course(key);
  if (ring.depth <= 0) return kNotSupported;
  if (course.code) return static_cast<Return>(course.code);
  *value_type = kUint;
  if (!out) {
    *count = static_cast<uint32_t>(ring.depth);
    return kSuccess;
  }
  const auto newest = static_cast<int64_t>(seconds() / ring.period);
  int64_t first = std::max<int64_t>(newest - ring.depth + 1, 1);
  const auto stamp = [&](int64_t i) { return unix_us(static_cast<double>(i) * ring.period); };
  while (first <= newest && stamp(first) <= since_us) ++first;
  const auto value = [&](int64_t i) {
    const double mean = course.mean(static_cast<double>(i - 1) * ring.period, static_cast<double>(i) * ring.period);
    return static_cast<uint32_t>(std::lround(type == kPowerSamples ? mean * 1000 : mean));
  };
  const bool zeros = type == kPowerSamples || scenario().zero_when_idle;
  uint32_t n = 0;
  for (int64_t i = std::max(first, newest - static_cast<int64_t>(*count) + 1); i <= newest && n < *count; ++i) {
    const uint32_t v = value(i);
    if (v == 0 && !zeros) continue;
    out[n].time_us = stamp(i);
    out[n].value.u64 = 0;
    out[n++].value.u32 = v;
  }
  *count = n;
  return n == 0 ? kNotFound : kSuccess;
}

namespace {
// A driver says the share of its last sample period; here as of now unless the scenario wants it so.
Return tell_rate(const Gpu& gpu, std::string_view key, uint32_t* out) {
  const Course& course = gpu.course(key);
  const double period = gpu.rings.find(key)->second.period, end = std::floor(seconds() / period) * period;
  if (course.code) return static_cast<Return>(course.code);
  *out = static_cast<uint32_t>(
      std::lround(scenario().mean_rates ? course.mean(end - period, end) : std::floor(course.at(seconds()))));
  return kSuccess;
}
}  // namespace

NVML_EXPORT Return nvmlDeviceGetUtilizationRates(Device d, Utilization* out) {
  NVML_ENTER(d);
  if (gpu_of(d)->parent || !gpu_of(d)->instances.empty()) return kNotSupported;
  if (const Return r = tell_rate(*gpu_of(d), "utilization", &out->gpu); r != kSuccess) return r;
  return tell_rate(*gpu_of(d), "memory_utilization", &out->memory);
}

#define NVML_ENGINE(name, key)                                            \
  NVML_EXPORT Return name(Device d, uint32_t* out, uint32_t* period_us) { \
    NVML_ENTER(d);                                                        \
    *period_us = 167000;                                                  \
    return gpu_of(d)->parent ? kNotSupported : tell(gpu_of(d), key, out); \
  }
NVML_ENGINE(nvmlDeviceGetEncoderUtilization, "encoder")
NVML_ENGINE(nvmlDeviceGetDecoderUtilization, "decoder")
NVML_ENGINE(nvmlDeviceGetJpgUtilization, "jpeg")
NVML_ENGINE(nvmlDeviceGetOfaUtilization, "ofa")

namespace {
// What a v1 caller sees as used has the reserved part in it.
Return memory_of(const Gpu& gpu, MemoryV2& m) {
  if (Return r = tell(&gpu, "memory_total", &m.total); r != kSuccess) return r;
  if (Return r = tell(&gpu, "memory_used", &m.used); r != kSuccess) return r;
  m.used += static_cast<uint64_t>(gpu.taken_bytes.load());
  if (tell(&gpu, "memory_reserved", &m.reserved) != kSuccess) m.reserved = 0;
  m.free = m.total > m.used + m.reserved ? m.total - m.used - m.reserved : 0;
  return kSuccess;
}
}  // namespace

NVML_EXPORT void profgpu_stub_take_memory(uint32_t index, int64_t bytes) {
  if (index < scenario().gpus.size()) scenario().gpus[index].taken_bytes += bytes;
}
NVML_EXPORT Return nvmlDeviceGetMemoryInfo_v2(Device d, MemoryV2* out) {
  NVML_ENTER(d);
  if (out->version != 0x02000028) return kArgumentVersionMismatch;
  return memory_of(*gpu_of(d), *out);
}
NVML_EXPORT Return nvmlDeviceGetMemoryInfo(Device d, Memory* out) {
  NVML_ENTER(d);
  MemoryV2 m{};
  const Return r = memory_of(*gpu_of(d), m);
  *out = {m.total, m.free, m.used + m.reserved};
  return r;
}
NVML_EXPORT Return nvmlDeviceGetBAR1MemoryInfo(Device d, Bar1Memory* out) {
  NVML_ENTER(d);
  if (const Return r = tell(gpu_of(d), "bar1_total", &out->total); r != kSuccess) return r;
  const Return r = tell(gpu_of(d), "bar1_used", &out->used);
  out->free = out->total - out->used;
  return r;
}

#define NVML_NUMBER(name, key, scale)                                              \
  NVML_EXPORT Return name(Device d, uint32_t* out) {                               \
    NVML_ENTER(d);                                                                 \
    return gpu_of(d)->parent ? kNotSupported : tell(gpu_of(d), key, out, scale);   \
  }
NVML_NUMBER(nvmlDeviceGetPowerUsage, "power", 1000)
NVML_NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power_limit", 1000)
NVML_NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, "power_default", 1000)
NVML_NUMBER(nvmlDeviceGetFanSpeed, "fan", 1)
NVML_NUMBER(nvmlDeviceGetPerformanceState, "pstate", 1)
NVML_NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_gen", 1)
NVML_NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width", 1)
NVML_NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_gen_max", 1)
NVML_NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "pcie_width_max", 1)

NVML_EXPORT Return nvmlDeviceGetPowerManagementLimitConstraints(Device d, uint32_t* low, uint32_t* high) {
  NVML_ENTER(d);
  if (const Return r = tell(gpu_of(d), "power_min", low, 1000); r != kSuccess) return r;
  return tell(gpu_of(d), "power_max", high, 1000);
}
NVML_EXPORT Return nvmlDeviceGetTotalEnergyConsumption(Device d, uint64_t* out) {
  NVML_ENTER(d);
  if (const int code = gpu_of(d)->course("energy").code) return static_cast<Return>(code);
  *out = static_cast<uint64_t>(energy_of(*gpu_of(d), seconds()) * 1000);
  return kSuccess;
}

// Counts 20 ms of traffic: a caller on the sampling path would sleep here.
NVML_EXPORT Return nvmlDeviceGetPcieThroughput(Device d, uint32_t, uint32_t* out) {
  NVML_ENTER(d);
  const timespec pause{0, 20'000'000};
  nanosleep(&pause, nullptr);
  *out = 0;
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetTemperature(Device d, uint32_t sensor, uint32_t* out) {
  NVML_ENTER(d);
  return sensor || gpu_of(d)->parent ? kInvalidArgument : tell(gpu_of(d), "temperature", out);
}
NVML_EXPORT Return nvmlDeviceGetTemperatureV(Device d, TemperatureV1* out) {
  NVML_ENTER(d);
  if (out->version != 0x0100000c) return kArgumentVersionMismatch;
  return out->sensor || gpu_of(d)->parent ? kInvalidArgument : tell(gpu_of(d), "temperature", &out->degrees);
}
NVML_EXPORT Return nvmlDeviceGetMarginTemperature(Device d, MarginTemperature* out) {
  NVML_ENTER(d);
  if (out->version != 0x01000008) return kArgumentVersionMismatch;
  return gpu_of(d)->parent ? kNotSupported : tell(gpu_of(d), "margin", &out->degrees);
}
NVML_EXPORT Return nvmlDeviceGetTemperatureThreshold(Device d, uint32_t which, uint32_t* out) {
  NVML_ENTER(d);
  if (which > kSlowdownThreshold || gpu_of(d)->parent) return kNotSupported;
  return tell(gpu_of(d), which == kShutdownThreshold ? "shutdown" : "slowdown", out);
}

namespace {
constexpr const char* kClocks[] = {"graphics_clock", "sm_clock", "memory_clock", "video_clock"};
constexpr const char* kMaxClocks[] = {"graphics_clock_max", "sm_clock_max", "memory_clock_max", "video_clock_max"};
}  // namespace

NVML_EXPORT Return nvmlDeviceGetClockInfo(Device d, uint32_t type, uint32_t* out) {
  NVML_ENTER(d);
  if (type > kVideoClock || gpu_of(d)->parent) return kNotSupported;
  if (gpu_of(d)->locked && type != kMemoryClock) return tell(gpu_of(d), "base_clock", out);
  const bool same = gpu_of(d)->course(kClocks[type]).kind == "same";
  return tell(gpu_of(d), same ? "sm_clock" : kClocks[type], out);
}
NVML_EXPORT Return nvmlDeviceSetGpuLockedClocks(Device d, uint32_t least_mhz, uint32_t most_mhz) {
  NVML_ENTER(d);
  if (least_mhz != kTdpClock || most_mhz != kTdpClock) return kInvalidArgument;
  gpu_of(d)->locked = true;
  return kSuccess;
}
NVML_EXPORT Return nvmlDeviceResetGpuLockedClocks(Device d) {
  NVML_ENTER(d);
  gpu_of(d)->locked = false;
  log_calls();
  return kSuccess;
}
NVML_EXPORT Return nvmlDeviceGetMaxClockInfo(Device d, uint32_t type, uint32_t* out) {
  NVML_ENTER(d);
  return type > kVideoClock ? kInvalidArgument : tell(gpu_of(d), kMaxClocks[type], out);
}
NVML_EXPORT Return nvmlDeviceGetCurrentClocksEventReasons(Device d, uint64_t* out) {
  NVML_ENTER(d);
  return gpu_of(d)->parent ? kNotSupported : tell(gpu_of(d), "reasons", out);
}
NVML_EXPORT Return nvmlDeviceGetCurrentClocksThrottleReasons(Device d, uint64_t* out) {
  NVML_ENTER(d);
  return gpu_of(d)->parent ? kNotSupported : tell(gpu_of(d), "reasons", out);
}
