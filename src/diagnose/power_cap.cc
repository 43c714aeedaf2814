#include <fmt/format.h>

#include "diagnose/device_measure.h"

namespace profgpu {
namespace {

std::optional<Finding> check_power_cap(const Rule& rule, const Evidence& evidence) {
  auto hit = fired_on_device(rule, evidence, {}, [](const DeviceTelemetry& d) {
    return throttled_pct(d, {"sw_power_cap", "hw_power_brake_slowdown"});
  });
  if (!hit) return std::nullopt;
  Finding& f = hit->finding;
  const DeviceTelemetry& d = *hit->worst;
  f.what = fmt::format("the power limit holds the clocks of {} back {} of the time", d.label(), percent_text(*f.value));
  f.why = "The device runs slower than it could to stay below its power limit.";
  const auto limit = d.limit(Metric::kPowerLimit), usual = d.limit(Metric::kPowerLimitDefault);
  if (const SeriesSummary* power = d.find(Metric::kPower); power && limit)
    f.evidence.push_back(fmt::format("{:.0f} W at most, limit {:.0f} W", *power->max, *limit));
  if (const auto most = d.limit(Metric::kSmClockMax); d.find(Metric::kSmClock) && most)
    f.evidence.push_back(fmt::format("SM clock {:.0f} MHz on average of {:.0f}", *d.find(Metric::kSmClock)->mean, *most));
  if (limit && usual && *limit < *usual - 1) {
    f.why = fmt::format("The limit is {:.0f} W, below the device's default of {:.0f} W.", *limit, *usual);
    f.fix = {fmt::format("restore the default: nvidia-smi -i {} -pl {:.0f}", d.device.label(), *usual)};
  } else {
    f.fix = {"normal for dense matrix work at full load; fewer bits (bf16, fp8) or fewer bytes moved do the same with less power"};
  }
  for (const ThrottleTime& t : d.throttle)
    if (t.reason == "hw_power_brake_slowdown")
      f.fix.insert(f.fix.begin(), "the power brake comes from the system: check power supplies, cables and the rack's power budget");
  return f;
}

}  // namespace

extern const Rule kPowerCap;
const Rule kPowerCap = {
    "power-cap",
    "the power limit holds the clocks back",
    "%",
    5,
    "The device lowers its clocks because it would draw more than its power limit. At the default limit this is how a fully "
    "loaded device behaves; below it, somebody has limited it.",
    "Value: time of the device's own counters for the power limit and the power brake over the time that was sampled; where there "
    "are no counters, the share of samples whose reasons say so. It has no cost: how much a kernel gains from a higher "
    "clock depends on the kernel.",
    {"nvidia-smi -q -d POWER shows the limits; -pl sets one (root)",
     "a power brake comes from outside: power supplies, cables, the rack's budget",
     "bf16 or fp8 instead of fp32, fused kernels: less energy for the same result",
     "a lower limit often saves much energy for little time: measure energy per step at two limits"},
    {.whole = check_power_cap}};

}  // namespace profgpu
