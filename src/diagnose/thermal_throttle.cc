#include <fmt/format.h>

#include "diagnose/measure.h"
#include "trace/health.h"

namespace profgpu {
namespace {

std::optional<double> thermal_throttle_samples(const DeviceTelemetry& d) {
  return held_back_pct(d, kHeatReasons);
}

void say_thermal_throttle_samples(const DeviceTelemetry& d, Finding& f) {
  f.what = fmt::format("temperature holds the clocks of {} back {} of the time", d.label(), percent_text(*f.value));
  const SeriesSummary *core = d.find(Metric::kTemperature), *memory = d.find(Metric::kMemoryTemperature);
  const SeriesSummary* clock = d.find(Metric::kSmClock);
  f.why = "The device runs slower than it could to stay below its limit.";
  if (core) f.evidence.push_back(fmt::format("core temperature {:.0f} °C at most", *core->max));
  if (memory) f.evidence.push_back(fmt::format("memory temperature {:.0f} °C at most", *memory->max));
  if (const auto most = d.limit(Metric::kSmClockMax); clock && most)
    f.evidence.push_back(fmt::format("SM clock {:.0f} MHz on average of {:.0f}", *clock->mean, *most));
  f.fix = {"better cooling: air flow, fan curve, dust, neighbours of the slot, room temperature",
           "until then a lower power limit keeps clocks steady: nvidia-smi -i " + d.device.label() + " -pl WATTS"};
}

std::optional<Advice> heat_now(const Rule& rule, const DeviceNow& d) {
  return held_now(rule, d.held_by_heat_pct, rule.severity, std::string(rule.advice.front()));
}

}  // namespace

extern const Rule kThermalThrottle;
const Rule kThermalThrottle = {
    .id = "thermal-throttle",
    .summary = "temperature holds the clocks back",
    .unit = "%",
    .threshold = kHeldBackPct.said,
    .severity = kHeldBackPct.severity,
    .meaning =
        "The device lowers its clocks because its core or memory is too hot. Every kernel that computes takes longer, "
        "and in a job of several devices the others wait for it.",
    .computation =
        "Value: time of the device's own counters for thermal slowdown (driver and hardware) over the time that was "
        "sampled; where there are no counters, the share of samples whose reasons say so. It has no cost: how much a "
        "kernel gains from a higher clock depends on the kernel.",
    .advice = {
        "cooling: air flow, fan curve, blanking plates, room temperature, thermal paste or pads",
        "a lower power limit (nvidia-smi -pl) for steady clocks",
        "compare the devices of the node: one that is hotter than the others has a fault",
        "move the job to another node and have this one looked after",
    },
    .samples = {.value = thermal_throttle_samples, .say = say_thermal_throttle_samples},
    .now = heat_now,
};

}  // namespace profgpu
