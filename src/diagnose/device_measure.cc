#include "diagnose/device_measure.h"

#include <fmt/format.h>

#include <algorithm>

namespace profgpu {
namespace {

constexpr int64_t kShortest = 2'000'000'000;

}  // namespace

std::optional<FiredOnDevice> fired_on_device(const Rule& rule, const Evidence& evidence, Limits limits,
                                             const DeviceReading& reading) {
  const double threshold = evidence.thresholds.of(rule);
  std::optional<FiredOnDevice> result;
  size_t count = 0;
  for (const DeviceTelemetry& device : evidence.telemetry) {
    if (!device.used() || device.duration_ns() < kShortest) continue;
    const std::optional<double> value = reading(device);
    if (!value || !rule.beyond(*value, threshold)) continue;
    ++count;
    if (result && !rule.beyond(*value, *result->finding.value)) continue;
    result.emplace(FiredOnDevice{{}, &device});
    result->finding.value = value;
  }
  if (!result) return std::nullopt;
  Finding& f = result->finding;
  f = finding_of(rule, *f.value, threshold, limits);
  if (count > 1) f.evidence.push_back(fmt::format("{} devices are beyond the threshold; this is the worst", count));
  return result;
}

std::optional<double> throttled_pct(const DeviceTelemetry& device, const std::vector<std::string_view>& reasons) {
  if (!device.throttle_known) return std::nullopt;
  double pct = 0;
  for (const ThrottleTime& t : device.throttle)
    if (std::find(reasons.begin(), reasons.end(), t.reason) != reasons.end()) pct += t.pct;
  return std::min(pct, 100.0);
}

}  // namespace profgpu
