#include <fmt/format.h>

#include "diagnose/device_measure.h"

namespace profgpu {
namespace {

std::optional<Finding> check_thermal_throttle(const Rule& rule, const Evidence& evidence) {
  auto hit = fired_on_device(rule, evidence, {}, [](const DeviceTelemetry& d) {
    return throttled_pct(d, {"sw_thermal_slowdown", "hw_thermal_slowdown", "thermal"});
  });
  if (!hit) return std::nullopt;
  Finding& f = hit->finding;
  const DeviceTelemetry& d = *hit->worst;
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
  return f;
}

}  // namespace

extern const Rule kThermalThrottle;
const Rule kThermalThrottle = {
    "thermal-throttle",
    "temperature holds the clocks back",
    "%",
    5,
    "The device lowers its clocks because its core or memory is too hot. Every kernel that computes takes longer, and in a "
    "job of several devices the others wait for it.",
    "Value: time of the device's own counters for thermal slowdown (driver and hardware) over the time that was sampled; where "
    "there are no counters, the share of samples whose reasons say so. It has no cost: how much a kernel gains from a "
    "higher clock depends on the kernel.",
    {"cooling: air flow, fan curve, blanking plates, room temperature, thermal paste or pads",
     "a lower power limit (nvidia-smi -pl) for steady clocks",
     "compare the devices of the node: one that is hotter than the others has a fault",
     "move the job to another node and have this one looked after"},
    {.whole = check_thermal_throttle}};

}  // namespace profgpu
