// The calls that have turns, and how often each is due.
#include <algorithm>

#include "base/clock.h"
#include "collect/nvml_constants.h"
#include "collect/nvml_reader.h"

namespace profgpu::nvml {
namespace {

constexpr int64_t kMs = 1'000'000, kSecond = 1'000'000'000;
constexpr uint32_t kUnknownPstate = 32;

}  // namespace

// In the order of a reading of everything; what every run needs comes first. The periods ask for about 20 calls a second;
// ticks of 0.2 s leave 9 or 10 besides the batch and processes, so that each turn comes about half as often as stated here;
// up to 0.1 s and from 1 s on the periods are kept.
constinit const std::array<Reader::Turn, 27> Reader::kTurns = {{
    {200 * kMs, 1, false, false, &Reader::ask_energy},
    {400 * kMs, 1, false, false, &Reader::ask_utilization},
    {200 * kMs, 1, true, false, &Reader::ask_memory},
    {500 * kMs, 1, false, false, &Reader::ask_power},
    {500 * kMs, 1, false, false, &Reader::ask_clock<kSmClock, Metric::kSmClock>},
    {1 * kSecond, 1, false, false, &Reader::ask_reasons},
    {1 * kSecond, 1, false, false, &Reader::ask_memory_utilization},
    {1 * kSecond, 2, false, false, &Reader::ask_gpm},
    {2 * kSecond, 1, true, false, &Reader::ask_temperature},
    {5 * kSecond, 1, false, false, &Reader::ask_clock<kMemoryClock, Metric::kMemoryClock>},
    {5 * kSecond, 1, false, false, &Reader::ask_clock<kGraphicsClock, Metric::kGraphicsClock>},
    {10 * kSecond, 1, false, false, &Reader::ask_clock<kVideoClock, Metric::kVideoClock>},
    {5 * kSecond, 1, false, false, &Reader::ask_pstate},
    {5 * kSecond, 1, false, false, &Reader::ask_engine<&Api::encoder, Metric::kEncoderUtilization>},
    {5 * kSecond, 1, false, false, &Reader::ask_engine<&Api::decoder, Metric::kDecoderUtilization>},
    {20 * kSecond, 1, false, false, &Reader::ask_engine<&Api::jpeg, Metric::kJpegUtilization>},
    {20 * kSecond, 1, false, false, &Reader::ask_engine<&Api::ofa, Metric::kOfaUtilization>},
    {20 * kSecond, 1, false, false, &Reader::ask_bar1},
    {20 * kSecond, 1, false, false, &Reader::ask_number<&Api::fan, Metric::kFanSpeed>},
    {10 * kSecond, 1, false, false, &Reader::ask_number<&Api::pcie_generation, Metric::kPcieGeneration>},
    {10 * kSecond, 1, false, false, &Reader::ask_number<&Api::pcie_width, Metric::kPcieWidth>},
    {10 * kSecond, 1, false, false, &Reader::ask_number<&Api::power_limit, Metric::kPowerLimit>},
    {10 * kSecond, 1, false, false, &Reader::ask_margin},
    {100 * kMs, 1, false, false, &Reader::ask_constants},
    {5 * kSecond, 1, false, true, &Reader::ask_graphics_processes},
    {5 * kSecond, 1, false, true, &Reader::ask_mps_processes},
    {1 * kSecond, 1, false, true, &Reader::ask_process_utilization},
}};

// The buffer where there is one. An idle device has no entries in it; then the present rate is asked for, which some
// drivers report as not supported where the buffer was.
Return Reader::ask_ring(Ring& ring, Metric metric, uint32_t Utilization::*rate, Reading& reading) {
  const Return drained = ring.usable() ? ring.drain(reading) : kNotSupported;
  if (drained == kSuccess || device_gone(drained)) return drained;
  if (ring.usable() && !ring.quiet_since(reading.time_ns)) return kSuccess;
  if (rates_ns_ != reading.time_ns) {
    const Return code = calls_.call(calls_.library.api.utilization, &rates_);
    if (code != kSuccess) {
      calls_.note(metric, code);
      // A buffer that was quiet may speak again.
      return is_final(code) && ring.usable() ? kSuccess : code;
    }
    rates_ns_ = reading.time_ns;
  }
  calls_.note(metric, kSuccess);
  // A rate over 100 is no rate.
  if (rates_.*rate <= 100) reading.add(metric, rates_.*rate, ring.next_ns(reading.time_ns));
  return kSuccess;
}

Return Reader::ask_utilization(Reading& reading) {
  return ask_ring(gpu_ring_, Metric::kUtilization, &Utilization::gpu, reading);
}
Return Reader::ask_memory_utilization(Reading& reading) {
  return ask_ring(memory_ring_, Metric::kMemoryUtilization, &Utilization::memory, reading);
}

// The buffer has the finest resolution; without it the batch's average, and on old drivers a call.
Return Reader::ask_power(Reading& reading) {
  if (power_ring_.usable()) {
    const Return code = power_ring_.drain(reading);
    if (code == kSuccess) power_ring_ns_ = reading.time_ns;
    if (code == kSuccess || device_gone(code)) return code;
  }
  if (fields_.has(Metric::kPower)) return power_ring_.usable() ? kSuccess : kNotSupported;
  if (power_ring_.usable() && !power_ring_.quiet_since(reading.time_ns)) return kSuccess;
  uint32_t milliwatts = 0;
  const Return code = calls_.call(calls_.library.api.power, &milliwatts);
  calls_.note(Metric::kPower, code);
  if (code == kSuccess) reading.add(Metric::kPower, milliwatts * 1e-3, power_ring_.next_ns(reading.time_ns));
  return is_final(code) && power_ring_.usable() ? kSuccess : code;
}

Return Reader::ask_energy(Reading& reading) {
  if (fields_.has(Metric::kEnergy)) return kNotSupported;
  uint64_t millijoules = 0;
  const Return code = calls_.call(calls_.library.api.energy, &millijoules);
  return tell(code, Metric::kEnergy, static_cast<double>(millijoules) * 1e-3, reading);
}

Return Reader::ask_memory(Reading& reading) {
  if (memory_v2_) {
    MemoryV2 m{version_word(sizeof m, 2), 0, 0, 0, 0};
    const Return code = calls_.call(calls_.library.api.memory_v2, &m);
    if (code == kSuccess) {
      tell(code, Metric::kMemoryReserved, static_cast<double>(m.reserved), reading);
      tell(code, Metric::kMemoryFree, static_cast<double>(m.free), reading);
      return tell(code, Metric::kMemoryUsed, static_cast<double>(m.used), reading);
    }
    if (!is_final(code)) {
      calls_.note(Metric::kMemoryUsed, code);
      return code;
    }
    memory_v2_ = false;
    calls_.note(Metric::kMemoryReserved, code);
  }
  Memory m{};
  const Return code = calls_.call(calls_.library.api.memory, &m);
  tell(code, Metric::kMemoryFree, static_cast<double>(m.free), reading);
  return tell(code, Metric::kMemoryUsed, static_cast<double>(m.used), reading);
}

Return Reader::ask_bar1(Reading& reading) {
  Bar1Memory m{};
  const Return code = calls_.call(calls_.library.api.bar1, &m);
  return tell(code, Metric::kBar1Used, static_cast<double>(m.used), reading);
}

// The newer call is asked only where the older is gone: it is the one that all drivers have.
Return Reader::ask_temperature(Reading& reading) {
  uint32_t degrees = 0;
  Return code = calls_.call(calls_.library.api.temperature, uint32_t{0}, &degrees);
  if (code != kFunctionNotFound && code != kDeprecated) return tell(code, Metric::kTemperature, degrees, reading);
  TemperatureV1 t{version_word(sizeof t, 1), 0, 0};
  code = calls_.call(calls_.library.api.temperature_v, &t);
  return tell(code, Metric::kTemperature, t.degrees, reading);
}

Return Reader::ask_margin(Reading& reading) {
  MarginTemperature m{version_word(sizeof m, 1), 0};
  const Return code = calls_.call(calls_.library.api.margin, &m);
  return tell(code, Metric::kTemperatureMargin, m.degrees, reading);
}

Return Reader::ask_reasons(Reading& reading) {
  uint64_t reasons = 0;
  const Return code = calls_.call(calls_.library.api.clock_reasons, &reasons);
  return tell(code, Metric::kClockEventReasons, static_cast<double>(reasons), reading);
}

Return Reader::ask_pstate(Reading& reading) {
  uint32_t state = 0;
  Return code = calls_.call(calls_.library.api.pstate, &state);
  if (code == kSuccess && state >= kUnknownPstate) code = kNoData;
  return tell(code, Metric::kPerformanceState, state, reading);
}

template <ClockType Type, Metric M>
Return Reader::ask_clock(Reading& reading) {
  uint32_t mhz = 0;
  const Return code = calls_.call(calls_.library.api.clock, uint32_t{Type}, &mhz);
  return tell(code, M, mhz, reading);
}

template <auto Function, Metric M>
Return Reader::ask_engine(Reading& reading) {
  uint32_t pct = 0, period_us = 0;
  Return code = calls_.call(calls_.library.api.*Function, &pct, &period_us);
  if (code == kSuccess && pct > 100) code = kNoData;
  return tell(code, M, pct, reading);
}

template <GetUint Api::*Function, Metric M>
Return Reader::ask_number(Reading& reading) {
  uint32_t value = 0;
  const Return code = calls_.call(calls_.library.api.*Function, &value);
  return tell(code, M, M == Metric::kPowerLimit ? value * 1e-3 : value, reading);
}

Return Reader::ask_gpm(Reading& reading) {
  const Return code = gpm_.read(now_ns_, reading);
  if (code != kSuccess)
    for (const Metric m : {Metric::kGraphicsActive, Metric::kSmActive, Metric::kSmOccupancy, Metric::kTensorActive,
                           Metric::kDramActive, Metric::kFp64Active, Metric::kFp32Active, Metric::kFp16Active,
                           Metric::kPcieTxRate, Metric::kPcieRxRate})
      calls_.note(m, code);
  return code;
}

// One a tick, or all that a reading of everything has time for.
Return Reader::ask_constants(Reading& reading) {
  while (next_constant_ < constants().size()) {
    const Constant& c = constants()[next_constant_];
    std::array<double, 2> values{};
    ++calls_.made;
    const Return code = c.ask(calls_.library, calls_.device, values);
    if (device_gone(code)) return code;
    ++next_constant_;
    tell(code, c.metric, values[0], reading);
    if (c.second) tell(code, *c.second, values[1], reading);
    if (monotonic_ns() >= until_ns_) return kSuccess;
  }
  return kNotSupported;   // nothing more, ever
}

Return Reader::ask_graphics_processes(Reading&) { return processes_.read_list(Processes::kGraphics); }
Return Reader::ask_mps_processes(Reading&) { return processes_.read_list(Processes::kMps); }
Return Reader::ask_process_utilization(Reading& reading) { return processes_.read_utilization(reading.time_ns); }

}  // namespace profgpu::nvml
