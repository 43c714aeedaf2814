#include "diagnose/device_measure.h"

#include <fmt/format.h>

#include <algorithm>

namespace profgpu {
namespace {

constexpr int64_t kShortest = 2'000'000'000;

}  // namespace

std::optional<FiredOnDevice> fired_on_device(const Rule& rule, const Evidence& evidence, Limits limits,
                                             const DeviceReading& reading) {
  const double threshold = evidence.threshold(rule.id, rule.threshold);
  const auto beyond = [&](double v, double limit) { return limits.below ? v < limit : v > limit; };
  std::optional<FiredOnDevice> result;
  size_t count = 0;
  for (const DeviceTelemetry& device : evidence.telemetry) {
    if (!device.used() || device.duration_ns() < kShortest) continue;
    const std::optional<double> value = reading(device);
    if (!value || !beyond(*value, threshold)) continue;
    ++count;
    if (result && !beyond(*value, *result->finding.value)) continue;
    result.emplace(FiredOnDevice{{}, &device});
    result->finding.value = value;
  }
  if (!result) return std::nullopt;
  Finding& f = result->finding;
  f.rule = rule.id;
  f.unit = rule.unit;
  f.threshold = threshold;
  f.severity = limits.severity;
  const bool at_limit = limits.critical && (limits.below ? *f.value < *limits.critical : *f.value >= *limits.critical);
  if (at_limit) f.severity = Severity::kCritical;
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

bool has_device_activity(const Evidence& evidence) {
  return std::any_of(evidence.ranks.begin(), evidence.ranks.end(),
                     [](const RankFacts& r) { return Measured(r.rank, *r.facts).has_device(); });
}

}  // namespace profgpu
