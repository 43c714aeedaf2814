#include <fmt/format.h>

#include "analyse/rules/measure.h"
#include "trace/health.h"

namespace profgpu {
namespace {

// Percent of the time that any of the reasons (bits of ClockReason) reduced the clocks; nothing if that is unknown.
template <uint32_t reasons>
std::optional<double> held_back_pct(const DeviceTelemetry& device) {
  return device.throttled_pct(reasons);
}

void add_clock(const DeviceTelemetry& d, Finding& f) {
  const SeriesSummary* clock = d.find(Metric::kSmClock);
  if (const auto most = d.limit(Metric::kSmClockMax); clock && most)
    f.evidence.push_back(fmt::format("average SM clock {:.0f} of {:.0f} MHz", *clock->mean, *most));
}

// Advice of `top` on clocks reduced in the last minute.
std::optional<Advice> held_now(const Rule& rule, std::optional<double> pct, Severity severity, std::string fix) {
  if (!pct || !rule.beyond(*pct, rule.threshold)) return std::nullopt;
  return Advice{severity, fmt::format("{}, {:.0f} % of the last minute", rule.summary, *pct), std::move(fix)};
}

void describe_thermal_throttle(const DeviceTelemetry& d, Finding& f) {
  f.what = fmt::format("{} reduces its clocks {} of the time because it is too hot", d.label(),
                       format_percent(*f.value));
  f.why = "To stay below its temperature limit, the device runs slower than it could.";
  const SeriesSummary *core = d.find(Metric::kTemperature), *memory = d.find(Metric::kMemoryTemperature);
  if (core) f.evidence.push_back(fmt::format("core temperature up to {:.0f} °C", *core->max));
  if (memory) f.evidence.push_back(fmt::format("memory temperature up to {:.0f} °C", *memory->max));
  add_clock(d, f);
  f.fix = {"improve cooling: air flow, fan curve, dust, neighboring slots, room temperature",
           "until then, lower the power limit for steady clocks: nvidia-smi -i " + d.device.label() + " -pl WATTS"};
}

constexpr uint32_t kBrake = bits_of({ClockReason::kHwPowerBrake});
constexpr std::string_view kBrakeFix =
    "check power supplies, cables and the rack's power budget: the power brake is triggered by the system";

void describe_power_cap(const DeviceTelemetry& d, Finding& f) {
  f.what = fmt::format("{} reduces its clocks {} of the time because of its power limit", d.label(),
                       format_percent(*f.value));
  f.why = "To stay below its power limit, the device runs slower than it could.";
  const auto limit = d.limit(Metric::kPowerLimit), usual = d.limit(Metric::kPowerLimitDefault);
  if (const SeriesSummary* power = d.find(Metric::kPower); power && limit)
    f.evidence.push_back(fmt::format("up to {:.0f} W, limit {:.0f} W", *power->max, *limit));
  add_clock(d, f);
  if (is_lowered(limit, usual)) {
    f.why = fmt::format("The limit is {:.0f} W, below the device's default of {:.0f} W.", *limit, *usual);
    f.fix = {fmt::format("restore the default limit: nvidia-smi -i {} -pl {:.0f}", d.device.label(), *usual)};
  } else {
    f.fix = {"this is normal for dense matrix work at full load; bf16, fp8 or fewer bytes moved need less power"};
  }
  for (const ThrottleTime& t : d.throttle)
    if ((t.bits & kBrake) != 0) f.fix.insert(f.fix.begin(), std::string(kBrakeFix));
}

// A fully loaded device at its default limit is not at fault.
std::optional<Advice> power_now(const Rule& rule, const DeviceNow& d) {
  if ((reason_bits(d.value(Metric::kClockEventReasons)).value_or(0) & kBrake) != 0)
    return held_now(rule, d.held_by_power_pct, rule.severity, std::string(kBrakeFix));
  const auto limit = d.value(Metric::kPowerLimit), usual = d.value(Metric::kPowerLimitDefault);
  if (is_lowered(limit, usual))
    return held_now(rule, d.held_by_power_pct, rule.severity,
                    fmt::format("the limit is {:.0f} W, the default {:.0f} W: nvidia-smi -i {} -pl {:.0f}", *limit,
                                *usual, d.label, *usual));
  return held_now(rule, d.held_by_power_pct, Severity::kInfo,
                  "normal under full load at the default limit; bf16 or fp8 needs less power");
}

constexpr double kMinLoss = 0.05, kMinLossBusyPct = 80;

}  // namespace

std::string clock_loss(const Evidence& evidence, const RankMeasure& m) {
  if (!m.has_device || m.device.known_utilization_pct < kMinLossBusyPct) return "";
  const DeviceTelemetry* device =
      evidence.telemetry.size() == 1
          ? &evidence.telemetry.front()
          : first_where(evidence.telemetry, [&](const DeviceTelemetry& d) {
              return !d.several_hosts && d.label() == m.device.label;
            });
  if (device == nullptr) return "";
  const SeriesSummary* clock = device->find(Metric::kSmClock);
  const auto most = device->limit(Metric::kSmClockMax);
  if (clock == nullptr || !clock->mean || !most || *most <= 0) return "";
  const double lost = 1 - *clock->mean / *most;
  if (lost < kMinLoss) return "";
  const ThrottleTime* held = first_where(device->throttle, [](const ThrottleTime& t) {
    return (t.bits & kHeldBackReasons) != 0 && t.pct > kHeldBackPct.reported;
  });
  return fmt::format("the SM clock averages {:.0f} of {:.0f} MHz{}: compute-bound kernels could take up to {:.0f} % less "
                     "time, memory-bound ones gain less",
                     *clock->mean, *most, held != nullptr ? ", reduced by " + held->words : "", 100 * lost);
}

extern const Rule kThermalThrottle = {
    .id = "thermal-throttle",
    .summary = "clocks reduced by temperature",
    .unit = "%",
    .threshold = kHeldBackPct.reported,
    .severity = kHeldBackPct.severity,
    .meaning =
        "The device lowers its clocks because its core or memory is too hot. All compute kernels take longer, and in a "
        "job with several devices the others wait.",
    .computation =
        "Value: time in thermal slowdown (driver and hardware) by the device's own counters, as a share of the sampled "
        "time; without counters, the share of samples with such a reason. Reasons that hold at once count once: of "
        "counters alone, the larger one. No cost: how much a kernel gains from a higher "
        "clock depends on the kernel.",
    .advice = {
        "cooling: air flow, fan curve, blanking plates, room temperature, thermal paste or pads",
        "a lower power limit (nvidia-smi -pl) for steady clocks",
        "compare the node's devices: one that is hotter than the others is faulty",
        "move the job to another node and have this one serviced",
    },
    .samples = {.value = held_back_pct<kHeatReasons>, .describe = describe_thermal_throttle},
    .now = [](const Rule& rule, const DeviceNow& d) {
      return held_now(rule, d.held_by_heat_pct, rule.severity, std::string(rule.advice.front()));
    },
};

extern const Rule kPowerCap = {
    .id = "power-cap",
    .summary = "clocks reduced by the power limit",
    .unit = "%",
    .threshold = kHeldBackPct.reported,
    .severity = kHeldBackPct.severity,
    .meaning =
        "The device lowers its clocks because it would exceed its power limit. At the default limit that is normal for "
        "a fully loaded device; at a lower limit, someone has set it.",
    .computation =
        "Value: time at the power limit and in power brake slowdown by the device's own counters, as a share of the "
        "sampled time; without counters, the share of samples with such a reason. Reasons that hold at once count "
        "once: of counters alone, the larger one. No cost: how much a kernel gains from a higher clock depends on the kernel.",
    .advice = {
        "nvidia-smi -q -d POWER shows the limits; nvidia-smi -pl sets one (as root)",
        "a power brake is triggered by the system: power supplies, cables, the rack's power budget",
        "bf16 or fp8 instead of fp32, fused kernels: less energy for the same result",
        "a lower limit often saves much energy for little time: measure energy per step at two limits",
    },
    .samples = {.value = held_back_pct<kPowerReasons>, .describe = describe_power_cap},
    .now = power_now,
};

}  // namespace profgpu
