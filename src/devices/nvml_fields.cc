#include "devices/nvml_fields.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

namespace profgpu::nvml {
namespace {

constexpr double kFieldMilli = 1e-3, kKiB = 1024;
constexpr int64_t kSlowPeriodNs = 5'000'000'000;
// A driver's time that is further off is of another clock.
constexpr int64_t kPlausibleNs = 10'000'000'000;

std::optional<double> number_of(const FieldValue& f) {
  switch (f.type) {
    case kDouble: return f.value.d;
    case kUint: return f.value.u32;
    case kUlong:
    case kUlonglong:
      if (f.value.u64 == kNotAvailable) return std::nullopt;
      return static_cast<double>(f.value.u64);
    case kSlonglong: return static_cast<double>(f.value.i64);
    case kSint: return f.value.i32;
    case kUshort: return f.value.u16;
    default: return std::nullopt;
  }
}

}  // namespace

constinit const std::array<FieldBatch::Row, FieldBatch::kRows> FieldBatch::kAllRows = {{
    {kPowerAverage, 0, Metric::kPower, kFieldMilli, false},
    {kPowerInstant, 0, Metric::kPowerInstant, kFieldMilli, false},
    {kTotalEnergy, 0, Metric::kEnergy, kFieldMilli, false},
    {kMemoryTemperature, 0, Metric::kMemoryTemperature, 1, false},
    {nvml::kThrottlePower, 0, Metric::kThrottlePower, 1, false},
    {nvml::kThrottleThermal, 0, Metric::kThrottleThermal, 1, false},
    {nvml::kThrottleSyncBoost, 0, Metric::kThrottleSyncBoost, 1, false},
    {nvml::kThrottleBoardLimit, 0, Metric::kThrottleBoardLimit, 1, false},
    {nvml::kThrottleLowUtilization, 0, Metric::kThrottleLowUtilization, 1, false},
    {nvml::kThrottleReliability, 0, Metric::kThrottleReliability, 1, false},
    {nvml::kThrottleSwThermal, 0, Metric::kThrottleSwThermal, 1, false},
    {nvml::kThrottleHwThermal, 0, Metric::kThrottleHwThermal, 1, false},
    {nvml::kThrottleHwPowerBrake, 0, Metric::kThrottleHwPowerBrake, 1, false},
    {kLinkDataTx, kAllLinks, Metric::kNvlinkTx, kKiB, false},
    {kLinkDataRx, kAllLinks, Metric::kNvlinkRx, kKiB, false},
    {kPcieTxBytes, 0, Metric::kPcieTx, 1, false},
    {kPcieRxBytes, 0, Metric::kPcieRx, 1, false},
    {kPcieReplay, 0, Metric::kPcieReplays, 1, true},
    {kLinkReplay, 0, Metric::kNvlinkErrors, 1, true},
    {kLinkRecovery, 0, Metric::kNvlinkErrors, 1, true},
    {kLinkCrcFlit, 0, Metric::kNvlinkErrors, 1, true},
    {kLinkCrcData, 0, Metric::kNvlinkErrors, 1, true},
    {kEccSbeVolatile, 0, Metric::kEccCorrected, 1, true},
    {kEccDbeVolatile, 0, Metric::kEccUncorrected, 1, true},
    {kEccSbeLifetime, 0, Metric::kEccCorrectedTotal, 1, true},
    {kEccDbeLifetime, 0, Metric::kEccUncorrectedTotal, 1, true},
    {kRetiredSbe, 0, Metric::kRetiredPagesSingleBit, 1, true},
    {kRetiredDbe, 0, Metric::kRetiredPagesDoubleBit, 1, true},
    {kRetiredPending, 0, Metric::kRetiredPagesPending, 1, true},
    {kRemappedCorrected, 0, Metric::kRemappedRowsCorrected, 1, true},
    {kRemappedUncorrected, 0, Metric::kRemappedRowsUncorrected, 1, true},
    {kRemappedPending, 0, Metric::kRemappedRowsPending, 1, true},
    {kRemappedFailed, 0, Metric::kRemappedRowsFailed, 1, true},
    {nvml::kRecoveryAction, 0, Metric::kRecoveryAction, 1, true},
}};

FieldBatch::FieldBatch(DeviceCalls& calls) : calls_(calls) {
  // A MIG instance has no power, links or health of its own.
  const Return absent = calls.parent ? kNotSupported : calls.library.api.fields ? kSuccess : kFunctionNotFound;
  for (const Row& r : kAllRows) {
    if (absent != kSuccess) calls_.note(r.metric, absent);
    else (r.slow ? slow_ : quick_).push_back(&r);
  }
}

bool FieldBatch::has(Metric metric) const {
  const auto is = [&](const Row* r) { return r->metric == metric; };
  return std::any_of(quick_.begin(), quick_.end(), is) || std::any_of(slow_.begin(), slow_.end(), is);
}

Return FieldBatch::read(const ReadRequest& request, bool power_elsewhere, Reading& reading) {
  const auto wanted = [&](const Row* r) { return request.wanted[static_cast<size_t>(r->metric)]; };
  const bool slow = request.everything || slow_at_ns_ == 0 || request.now_ns - slow_at_ns_ >= kSlowPeriodNs ||
                    std::any_of(slow_.begin(), slow_.end(), wanted);
  // On the stack, where the previous device has warmed the cache.
  std::array<const Row*, kRows> rows;
  std::array<FieldValue, kRows> values;
  auto end = std::copy(quick_.begin(), quick_.end(), rows.begin());
  if (slow) end = std::copy(slow_.begin(), slow_.end(), end);
  const auto count = static_cast<size_t>(end - rows.begin());
  if (count == 0) return kSuccess;
  for (size_t i = 0; i < count; ++i) values[i] = {rows[i]->field, rows[i]->scope, 0, 0, 0, 0, {}};
  const Return code = calls_.call(calls_.library.api.fields, static_cast<int>(count), values.data());
  if (code != kSuccess) {
    for (auto* list : {&quick_, &slow_}) {
      for (const Row* r : *list) calls_.note(r->metric, code);
      if (is_final(code)) list->clear();
    }
    return code;
  }
  if (slow) slow_at_ns_ = request.now_ns;
  link_errors_ = 0;
  any_link_errors_ = false;
  for (size_t i = 0; i < count; ++i) {
    const Return answer = take(values[i], *rows[i], power_elsewhere, reading);
    if (device_gone(answer)) return answer;
    if (is_final(answer)) std::erase(rows[i]->slow ? slow_ : quick_, rows[i]);
  }
  if (any_link_errors_) {
    calls_.note(Metric::kNvlinkErrors, kSuccess);
    reading.add(Metric::kNvlinkErrors, link_errors_);
  }
  return kSuccess;
}

Return FieldBatch::take(const FieldValue& f, const Row& row, bool power_elsewhere, Reading& reading) {
  const auto code = static_cast<Return>(f.result);
  const auto value = code == kSuccess ? number_of(f) : std::nullopt;
  if (!value) {
    const Return absent = code == kSuccess ? kNotSupported : code;
    calls_.note(row.metric, absent);
    return absent;
  }
  if (row.metric == Metric::kNvlinkErrors) {
    link_errors_ += *value;
    any_link_errors_ = true;
    return kSuccess;
  }
  calls_.note(row.metric, kSuccess);
  if (row.metric == Metric::kPower && power_elsewhere) return kSuccess;
  add(row, *value * row.scale, f.time_us, reading);
  return kSuccess;
}

// Power keeps the driver's time, so that reading faster than the sensor measures adds no false samples. All else gets
// the tick's time: differences of counters must cover the time from tick to tick.
void FieldBatch::add(const Row& row, double value, int64_t driver_us, Reading& reading) {
  int64_t at = reading.time_ns;
  if (row.metric == Metric::kPower || row.metric == Metric::kPowerInstant) {
    Last& last = row.metric == Metric::kPower ? power_ : power_instant_;
    const int64_t driver_ns = driver_us * 1000;
    const bool plausible = driver_us > 0 && driver_us < INT64_MAX / 1000 && std::llabs(driver_ns - at) < kPlausibleNs;
    if (plausible && last.time_ns != 0) at = driver_ns;
    if (at <= last.time_ns) {
      if (value == last.value) return;
      at = std::max(reading.time_ns, last.time_ns + 1);
    }
    last = {at, value};
  }
  reading.add(row.metric, value, at);
}

namespace {

struct GpmRow {
  uint32_t id;
  Metric metric;
  double scale;
};
// Percentages are 0 to 100. NVML's header gives the traffic in MiB/s, as assumed here; DCGM passes the same number on
// as bytes per second, so one of the two is wrong by 2^20.
constexpr double kMiB = 1 << 20;
constexpr GpmRow kGpmRows[] = {
    {1, Metric::kGraphicsActive, 1}, {2, Metric::kSmActive, 1},      {3, Metric::kSmOccupancy, 1},
    {5, Metric::kTensorActive, 1},   {10, Metric::kDramActive, 1},   {11, Metric::kFp64Active, 1},
    {12, Metric::kFp32Active, 1},    {13, Metric::kFp16Active, 1},   {20, Metric::kPcieTxRate, kMiB},
    {21, Metric::kPcieRxRate, kMiB},
};
// Takes that are closer reflect the counters' resolution rather than the device.
constexpr int64_t kMinGpmGapNs = 50'000'000;

}  // namespace

Gpm::~Gpm() {
  if (before_) calls_.library.call(calls_.library.api.gpm_free, before_);
  if (after_) calls_.library.call(calls_.library.api.gpm_free, after_);
}

Return Gpm::start() {
  const Api& api = calls_.library.api;
  GpmSupport support{1, 0};
  // Instances support what their GPU supports.
  const Device gpu = calls_.parent ? calls_.parent : calls_.device;
  if (const Return code = calls_.call_system(api.gpm_support, gpu, &support); code != kSuccess) return code;
  if (!support.supported || !api.gpm_metrics || !api.gpm_free) return kNotSupported;
  if (const Return code = calls_.call_system(api.gpm_alloc, &before_); code != kSuccess) return code;
  const Return code = calls_.call_system(api.gpm_alloc, &after_);
  started_ = code == kSuccess;
  return code;
}

Return Gpm::take(GpmSample sample) {
  const Api& api = calls_.library.api;
  return calls_.parent ? calls_.call_system(api.gpm_mig_sample, calls_.parent, calls_.gpu_instance, sample)
                       : calls_.call(api.gpm_sample, sample);
}

Return Gpm::read(int64_t now_ns, Reading& reading) {
  const Return code = read_new(now_ns, reading);
  if (code != kSuccess)
    for (const GpmRow& row : kGpmRows) calls_.note(row.metric, code);
  return code;
}

Return Gpm::read_new(int64_t now_ns, Reading& reading) {
  if (!started_)
    if (const Return code = start(); code != kSuccess) return code;
  if (taken_ns_ != 0 && now_ns - taken_ns_ < kMinGpmGapNs) return kSuccess;
  if (const Return code = take(after_); code != kSuccess) return code;
  const Return code = taken_ns_ != 0 ? add_metrics(reading) : kSuccess;
  std::swap(before_, after_);
  taken_ns_ = now_ns;
  taken_unix_ns_ = reading.time_ns;
  return code;
}

Return Gpm::add_metrics(Reading& reading) {
  GpmMetrics<std::size(kGpmRows)> request{1, std::size(kGpmRows), before_, after_, {}};
  for (size_t i = 0; i < std::size(kGpmRows); ++i) request.metrics[i].id = kGpmRows[i].id;
  const Return made = calls_.call_system(calls_.library.api.gpm_metrics, static_cast<void*>(&request));
  if (made != kSuccess) return made;
  for (size_t i = 0; i < std::size(kGpmRows); ++i) {
    const GpmMetric& m = request.metrics[i];
    const auto code = static_cast<Return>(m.result);
    // Drivers report NaN where they have no value.
    const bool good = code == kSuccess && std::isfinite(m.value) && m.value >= 0;
    calls_.note(kGpmRows[i].metric, good ? kSuccess : code == kSuccess ? kNoData : code);
    if (good) reading.add(kGpmRows[i].metric, m.value * kGpmRows[i].scale, taken_unix_ns_);
  }
  return kSuccess;
}

}  // namespace profgpu::nvml
