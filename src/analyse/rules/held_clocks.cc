#include <fmt/format.h>

#include "analyse/rules/measure.h"
#include "trace/health.h"

namespace profgpu {
namespace {

// Percent of the time that the reasons (bits of ClockReason) held clocks back; nothing where it is not known.
template <uint32_t reasons>
std::optional<double> held_back_pct(const DeviceTelemetry& device) {
  double pct = 0;
  for (const ThrottleTime& t : device.throttle)
    if ((t.bits & reasons) != 0) pct += t.pct;
  return only_if(device.throttle_known, std::min(pct, 100.0));
}

void add_clock(const DeviceTelemetry& d, Finding& f) {
  const SeriesSummary* clock = d.find(Metric::kSmClock);
  if (const auto most = d.limit(Metric::kSmClockMax); clock && most)
    f.evidence.push_back(fmt::format("SM clock {:.0f} MHz on average of {:.0f}", *clock->mean, *most));
}

// What `top` says of clocks that were held back in the last minute.
std::optional<Advice> held_now(const Rule& rule, std::optional<double> pct, Severity severity, std::string fix) {
  if (!pct || !rule.beyond(*pct, rule.threshold)) return std::nullopt;
  return Advice{severity, fmt::format("{}, {:.0f} % of the last minute", rule.summary, *pct), std::move(fix)};
}

void say_thermal_throttle(const DeviceTelemetry& d, Finding& f) {
  f.what = fmt::format("temperature holds the clocks of {} back {} of the time", d.label(), percent_text(*f.value));
  const SeriesSummary *core = d.find(Metric::kTemperature), *memory = d.find(Metric::kMemoryTemperature);
  f.why = "The device runs slower than it could to stay below its limit.";
  if (core) f.evidence.push_back(fmt::format("core temperature {:.0f} °C at most", *core->max));
  if (memory) f.evidence.push_back(fmt::format("memory temperature {:.0f} °C at most", *memory->max));
  add_clock(d, f);
  f.fix = {"better cooling: air flow, fan curve, dust, neighbours of the slot, room temperature",
           "until then a lower power limit keeps clocks steady: nvidia-smi -i " + d.device.label() + " -pl WATTS"};
}

constexpr uint32_t kBrake = bits_of({ClockReason::kHwPowerBrake});
constexpr std::string_view kBrakeFix =
    "the power brake comes from the system: check power supplies, cables and the rack's power budget";

void say_power_cap(const DeviceTelemetry& d, Finding& f) {
  f.what = fmt::format("the power limit holds the clocks of {} back {} of the time", d.label(), percent_text(*f.value));
  f.why = "The device runs slower than it could to stay below its power limit.";
  const auto limit = d.limit(Metric::kPowerLimit), usual = d.limit(Metric::kPowerLimitDefault);
  if (const SeriesSummary* power = d.find(Metric::kPower); power && limit)
    f.evidence.push_back(fmt::format("{:.0f} W at most, limit {:.0f} W", *power->max, *limit));
  add_clock(d, f);
  if (is_lowered(limit, usual)) {
    f.why = fmt::format("The limit is {:.0f} W, below the device's default of {:.0f} W.", *limit, *usual);
    f.fix = {fmt::format("restore the default: nvidia-smi -i {} -pl {:.0f}", d.device.label(), *usual)};
  } else {
    f.fix = {
        "normal for dense matrix work at full load; fewer bits (bf16, fp8) or fewer bytes moved do the same with less "
        "power"};
  }
  for (const ThrottleTime& t : d.throttle)
    if ((t.bits & kBrake) != 0) f.fix.insert(f.fix.begin(), std::string(kBrakeFix));
}

// At its usual limit a device under full load is held back by it: no fault.
std::optional<Advice> power_now(const Rule& rule, const DeviceNow& d) {
  if ((reason_bits(d.value(Metric::kClockEventReasons)).value_or(0) & kBrake) != 0)
    return held_now(rule, d.held_by_power_pct, rule.severity, std::string(kBrakeFix));
  const auto limit = d.value(Metric::kPowerLimit), usual = d.value(Metric::kPowerLimitDefault);
  if (is_lowered(limit, usual))
    return held_now(rule, d.held_by_power_pct, rule.severity,
                    fmt::format("the limit is {:.0f} W, the device's own {:.0f} W: nvidia-smi -i {} -pl {:.0f}", *limit,
                                *usual, d.label, *usual));
  return held_now(rule, d.held_by_power_pct, Severity::kInfo,
                  "usual under full load at the default limit; bf16 or fp8 needs less");
}

constexpr double kNotableLoss = 0.05, kBusyPct = 80;

}  // namespace

std::string clock_loss(const Evidence& evidence, const RankMeasure& m) {
  if (!m.has_device || m.known_utilization_pct < kBusyPct) return "";
  const DeviceTelemetry* device = evidence.telemetry.size() == 1 ? &evidence.telemetry.front() : nullptr;
  for (const DeviceTelemetry& d : evidence.telemetry)
    if (device == nullptr && !d.several_hosts && d.label() == m.device_label) device = &d;
  const SeriesSummary* clock = device != nullptr ? device->find(Metric::kSmClock) : nullptr;
  const auto most = device != nullptr ? device->limit(Metric::kSmClockMax) : std::nullopt;
  if (clock == nullptr || !clock->mean || !most || *most <= 0) return "";
  const double lost = 1 - *clock->mean / *most;
  if (lost < kNotableLoss) return "";
  const ThrottleTime* held = first_where(device->throttle, [](const ThrottleTime& t) {
    return (t.bits & kHeldBackReasons) != 0 && t.pct > kHeldBackPct.reported;
  });
  return fmt::format("the SM clock averages {:.0f} of {:.0f} MHz{}: at most {:.0f} % of the time of kernels that compute, "
                     "less of those that wait for memory",
                     *clock->mean, *most, held != nullptr ? ", held back by " + held->words : "", 100 * lost);
}

extern const Rule kThermalThrottle = {
    .id = "thermal-throttle",
    .summary = "temperature holds the clocks back",
    .unit = "%",
    .threshold = kHeldBackPct.reported,
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
    .samples = {.value = held_back_pct<kHeatReasons>, .say = say_thermal_throttle},
    .now = [](const Rule& rule, const DeviceNow& d) {
      return held_now(rule, d.held_by_heat_pct, rule.severity, std::string(rule.advice.front()));
    },
};

extern const Rule kPowerCap = {
    .id = "power-cap",
    .summary = "the power limit holds the clocks back",
    .unit = "%",
    .threshold = kHeldBackPct.reported,
    .severity = kHeldBackPct.severity,
    .meaning =
        "The device lowers its clocks because it would draw more than its power limit. At the default limit this is "
        "how a fully loaded device behaves; below it, somebody has limited it.",
    .computation =
        "Value: time of the device's own counters for the power limit and the power brake over the time that was "
        "sampled; where there are no counters, the share of samples whose reasons say so. It has no cost: how much a "
        "kernel gains from a higher clock depends on the kernel.",
    .advice = {
        "nvidia-smi -q -d POWER shows the limits; -pl sets one (root)",
        "a power brake comes from outside: power supplies, cables, the rack's budget",
        "bf16 or fp8 instead of fp32, fused kernels: less energy for the same result",
        "a lower limit often saves much energy for little time: measure energy per step at two limits",
    },
    .samples = {.value = held_back_pct<kPowerReasons>, .say = say_power_cap},
    .now = power_now,
};

}  // namespace profgpu
