#include "devices/nvml_reader.h"

#include <algorithm>

#include "base/clock.h"
#include "devices/nvml_fields.h"

namespace profgpu::nvml {
namespace {

constexpr int64_t kCallsPerTick = 3, kCallsPerSecond = 15;
constexpr int64_t kMaxSaved = 4;           // calls that ticks with little to do save for a later one
// The first turns, which a reading of everything must take, however short its time. In the very first reading only the
// counters: their growth belongs to the run, while the other values are of the time before it.
constexpr size_t kIndispensable = 4, kCounters = 1;
constexpr int64_t kMoment_ns = 10'000'000;  // younger values still hold where time is short; counters go on
constexpr int64_t kMaxEarning_ns = 60'000'000'000;
constexpr int64_t kProcessesNs = 10'000'000'000;  // without requests for this long they get no turns
constexpr int64_t kEachTick = 1;   // period of a turn of every tick

}  // namespace

std::string DeviceCalls::why(Metric metric) const {
  const int code = answers[static_cast<size_t>(metric)].load(std::memory_order_relaxed);
  if (code == kSuccess) return {};
  if (code == kNeverAsked)
    return metric == Metric::kXgmiTx || metric == Metric::kXgmiRx ? "NVIDIA devices have no XGMI" : "not read yet";
  if ((code == kNotSupported || code == kInvalidArgument) && parent) return "not reported for MIG instances";
  if (code == kNotSupported && divided) return "not reported for a GPU in MIG mode: see its instances";
  return words_of(static_cast<Return>(code));
}

Reader::Reader(Library& library, const Place& place)
    : calls_(library, place.device),
      fields_((calls_.parent = place.parent, calls_.gpu_instance = place.gpu_instance, calls_.divided = place.divided,
               calls_)),
      gpu_ring_(calls_, kGpuSamples, Metric::kUtilization, 1),
      memory_ring_(calls_, kMemorySamples, Metric::kMemoryUtilization, 1),
      power_ring_(calls_, kPowerSamples, Metric::kPower, 1e-3),
      gpm_(calls_),
      processes_(calls_, place.memory_total),
      next_constant_(place.constants_wanted ? 0 : constants().size()) {}

Status Reader::read(const ReadRequest& request, Reading& reading) {
  now_ns_ = request.now_ns;
  until_ns_ = !request.everything ? 0 : request.until_ns == 0 ? INT64_MAX : request.until_ns;
  new_ = read_ns_ == 0;
  processes_listed_ = false;
  const int64_t since_ns = new_ ? 0 : std::clamp<int64_t>(now_ns_ - read_ns_, 0, kMaxEarning_ns);
  read_ns_ = now_ns_;
  credit_ = std::min(credit_, kMaxSaved) + std::max(kCallsPerTick, since_ns * kCallsPerSecond / 1'000'000'000);
  Return code = request.everything ? kSuccess : take_wanted(request, reading);
  const int64_t begun = calls_.made;   // wanted metrics do not count against the budget
  if (code == kSuccess) code = read_fields(request, reading);
  if (code == kSuccess) code = read_processes(request);
  if (code == kSuccess) code = take_turns(request, begun, reading);
  if (processes_listed_) processes_.show(reading);
  // Buffer entries from here on are new, even if there was no time to read the buffers now.
  if (new_)
    for (Ring* ring : {&gpu_ring_, &memory_ring_, &power_ring_}) ring->begin(reading.time_ns);
  // A reading of everything need not be paid back.
  if (!request.everything) credit_ -= calls_.made - begun;
  if (code != kSuccess) return Error{words_of(code)};
  return ok();
}

Return Reader::read_fields(const ReadRequest& request, Reading& reading) {
  const Return code = fields_.read(request, power_from_ring_, reading);
  return device_gone(code) || code == kUnknown ? code : kSuccess;
}

// The list of compute processes is read on request; the others have turns.
Return Reader::read_processes(const ReadRequest& request) {
  // Processes of an instance would be listed twice if they also counted on its GPU.
  if (!request.processes || calls_.divided) return kSuccess;
  processes_asked_ns_ = request.now_ns;
  none_due_before_ns_ = 0;   // theirs may be
  const Return code = processes_.read_list(Processes::kCompute);
  processes_listed_ = code == kSuccess;
  return device_gone(code) ? code : kSuccess;
}

// kTurns.size(): none.
size_t Reader::most_overdue() {
  if (now_ns_ < none_due_before_ns_) return kTurns.size();
  size_t best = kTurns.size();
  double most = 0;
  int64_t next_ns = INT64_MAX;
  const bool processes = processes_asked_ns_ != 0 && now_ns_ - processes_asked_ns_ < kProcessesNs;
  for (size_t i = 0; i < kTurns.size(); ++i) {
    const TurnState& state = turns_[i];
    if (state.over || (kTurns[i].of_processes && !processes)) continue;
    if (kTurns[i].period_ns == kEachTick && state.last_ns == now_ns_) continue;
    // A tick that is a little early must not put a turn off by a whole tick.
    const int64_t due_ns = state.last_ns == 0 ? 0 : state.last_ns + kTurns[i].period_ns - kTurns[i].period_ns / 20;
    next_ns = std::min(next_ns, due_ns);
    if (due_ns > now_ns_) continue;
    const double overdue =
        state.last_ns == 0 ? 1e9
                           : static_cast<double>(now_ns_ - state.last_ns) / static_cast<double>(kTurns[i].period_ns);
    if (overdue <= most) continue;
    most = overdue;
    best = i;
  }
  none_due_before_ns_ = next_ns;
  return best;
}

Return Reader::take_wanted(const ReadRequest& request, Reading& reading) {
  for (size_t i = 0; i < kTurns.size(); ++i) {
    bool wanted = kTurns[i].period_ns == kEachTick ||
                  (kTurns[i].last == Metric::kFp16Active && (request.wanted[static_cast<size_t>(Metric::kPcieTxRate)] ||
                                                             request.wanted[static_cast<size_t>(Metric::kPcieRxRate)]));
    for (auto m = static_cast<size_t>(kTurns[i].metric); m <= static_cast<size_t>(kTurns[i].last); ++m)
      wanted |= request.wanted[m];
    if (!wanted || turns_[i].over || kTurns[i].of_processes) continue;
    if (const Return code = take(i, reading); code != kSuccess) return code;
  }
  return kSuccess;
}

Return Reader::take_turns(const ReadRequest& request, int64_t begun, Reading& reading) {
  if (request.everything && request.until_ns == 0) {
    for (size_t i = 0; i < kTurns.size(); ++i) {
      if (turns_[i].over || (kTurns[i].of_processes && !processes_listed_)) continue;
      if (const Return code = take(i, reading); code != kSuccess) return code;
    }
    return kSuccess;
  }
  const size_t indispensable = !request.everything ? 0 : new_ ? kCounters : kIndispensable;
  for (size_t i = 0; i < indispensable; ++i)
    if (const TurnState& state = turns_[i];
        !state.over && (i < kCounters || state.last_ns == 0 || now_ns_ - state.last_ns >= kMoment_ns))
      if (const Return code = take(i, reading); code != kSuccess) return code;
  for (;;) {
    const size_t next = most_overdue();
    if (next == kTurns.size()) return kSuccess;
    const bool over = request.everything ? monotonic_ns() >= until_ns_
                                         : calls_.made - begun + kTurns[next].calls > credit_;
    if (over) return kSuccess;
    if (const Return code = take(next, reading); code != kSuccess) return code;
  }
}

// An error here is one of the whole device.
Return Reader::take(size_t i, Reading& reading) {
  turns_[i].last_ns = now_ns_;
  const Return code = (this->*kTurns[i].ask)(reading);
  turns_[i].over = is_final(code);
  return device_gone(code) || (code == kUnknown && kTurns[i].vital) ? code : kSuccess;
}

Return Reader::tell(Return code, Metric metric, double value, Reading& reading) {
  calls_.note(metric, code);
  if (code == kSuccess) reading.add(metric, value);
  return code;
}

// The turns: calls and how often each is due.

namespace {

constexpr int64_t kMs = 1'000'000, kSecond = 1'000'000'000;

// Calls for one number, after the arguments `kBefore`.
template <auto kCall, uint32_t... kBefore>
Return whole(DeviceCalls& calls, double& value) {
  uint32_t number = 0;
  const Return code = calls.call(calls.library.api.*kCall, kBefore..., &number);
  value = number;
  return code;
}
template <auto kCall>
Return thousandth(DeviceCalls& calls, double& value) {
  const Return code = whole<kCall>(calls, value);
  value *= 1e-3;
  return code;
}
template <auto kCall>
Return wide(DeviceCalls& calls, double& value) {
  uint64_t number = 0;
  const Return code = calls.call(calls.library.api.*kCall, &number);
  value = static_cast<double>(number);
  return code;
}
template <auto kCall>
Return engine(DeviceCalls& calls, double& value) {
  uint32_t pct = 0, period_us = 0;
  const Return code = calls.call(calls.library.api.*kCall, &pct, &period_us);
  value = pct;
  return code == kSuccess && pct > 100 ? kNoData : code;
}
template <auto kMember>
Return bar1(DeviceCalls& calls, double& value) {
  Bar1Memory m{};
  const Return code = calls.call(calls.library.api.bar1, &m);
  value = static_cast<double>(m.*kMember);
  return code;
}
template <bool kHigh>
Return power_range(DeviceCalls& calls, double& value) {
  uint32_t low = 0, high = 0;
  const Return code = calls.call(calls.library.api.power_range, &low, &high);
  value = (kHigh ? high : low) * 1e-3;
  return code;
}

// The newer call only where the older one is gone: all drivers have the older one.
Return temperature(DeviceCalls& calls, double& value) {
  const Return code = whole<&Api::temperature, 0>(calls, value);
  if (code != kFunctionNotFound && code != kDeprecated) return code;
  TemperatureV1 t{version_word(sizeof t, 1), 0, 0};
  const Return newer = calls.call(calls.library.api.temperature_v, &t);
  value = t.degrees;
  return newer;
}

Return margin(DeviceCalls& calls, double& value) {
  MarginTemperature m{version_word(sizeof m, 1), 0};
  const Return code = calls.call(calls.library.api.margin, &m);
  value = m.degrees;
  return code;
}

Return pstate(DeviceCalls& calls, double& value) {
  constexpr double kUnknownPstate = 32;
  const Return code = whole<&Api::pstate>(calls, value);
  return code == kSuccess && value >= kUnknownPstate ? kNoData : code;
}

constexpr Constant kConstants[] = {
    {Metric::kBar1Total, bar1<&Bar1Memory::total>},
    {Metric::kSmClockMax, whole<&Api::clock_max, kSmClock>},
    {Metric::kTemperatureSlowdown, whole<&Api::threshold, kSlowdownThreshold>},
    {Metric::kPowerLimitMin, power_range<false>},
    {Metric::kPowerLimitMax, power_range<true>},
    {Metric::kPowerLimitDefault, thousandth<&Api::power_default>},
    {Metric::kPcieGenerationMax, whole<&Api::pcie_generation_max>},
    {Metric::kPcieWidthMax, whole<&Api::pcie_width_max>},
    {Metric::kTemperatureShutdown, whole<&Api::threshold, kShutdownThreshold>},
    {Metric::kMemoryClockMax, whole<&Api::clock_max, kMemoryClock>},
    {Metric::kGraphicsClockMax, whole<&Api::clock_max, kGraphicsClock>},
    {Metric::kVideoClockMax, whole<&Api::clock_max, kVideoClock>},
};

}  // namespace

std::span<const Constant> constants() { return kConstants; }

// In the order of a reading of everything; what every run needs comes first. The periods ask for about 16 calls a
// second; ticks of 0.2 s leave 9 or 10 besides the batch and processes, so that each turn comes about half as often as
// stated here; up to 0.1 s and from 1 s on the periods are kept.
constinit const std::array<Reader::Turn, 27> Reader::kTurns = {{
    {.period_ns = 200 * kMs, .ask = &Reader::ask_energy, .metric = Metric::kEnergy},
    {.period_ns = kEachTick, .ask = &Reader::ask_utilization, .metric = Metric::kUtilization},
    {.period_ns = 200 * kMs, .ask = &Reader::ask_memory, .metric = Metric::kMemoryUsed,
     .last = Metric::kMemoryReserved, .vital = true},
    {.period_ns = kEachTick, .ask = &Reader::ask_power, .metric = Metric::kPower},
    number_turn<Metric::kSmClock, whole<&Api::clock, kSmClock>>(500 * kMs),
    number_turn<Metric::kClockEventReasons, wide<&Api::clock_reasons>>(1 * kSecond),
    {.period_ns = 1 * kSecond, .ask = &Reader::ask_memory_utilization, .metric = Metric::kMemoryUtilization},
    {.period_ns = 1 * kSecond, .ask = &Reader::ask_gpm, .metric = Metric::kGraphicsActive,
     .last = Metric::kFp16Active, .calls = 2},
    {.period_ns = 2 * kSecond, .ask = &Reader::ask_number<Metric::kTemperature, temperature>,
     .metric = Metric::kTemperature, .vital = true},
    number_turn<Metric::kMemoryClock, whole<&Api::clock, kMemoryClock>>(5 * kSecond),
    number_turn<Metric::kGraphicsClock, whole<&Api::clock, kGraphicsClock>>(5 * kSecond),
    number_turn<Metric::kVideoClock, whole<&Api::clock, kVideoClock>>(10 * kSecond),
    number_turn<Metric::kPerformanceState, pstate>(5 * kSecond),
    number_turn<Metric::kEncoderUtilization, engine<&Api::encoder>>(5 * kSecond),
    number_turn<Metric::kDecoderUtilization, engine<&Api::decoder>>(5 * kSecond),
    number_turn<Metric::kJpegUtilization, engine<&Api::jpeg>>(20 * kSecond),
    number_turn<Metric::kOfaUtilization, engine<&Api::ofa>>(20 * kSecond),
    number_turn<Metric::kBar1Used, bar1<&Bar1Memory::used>>(20 * kSecond),
    number_turn<Metric::kFanSpeed, whole<&Api::fan>>(20 * kSecond),
    number_turn<Metric::kPcieGeneration, whole<&Api::pcie_generation>>(10 * kSecond),
    number_turn<Metric::kPcieWidth, whole<&Api::pcie_width>>(10 * kSecond),
    number_turn<Metric::kPowerLimit, thousandth<&Api::power_limit>>(10 * kSecond),
    number_turn<Metric::kTemperatureMargin, margin>(10 * kSecond),
    {.period_ns = 100 * kMs, .ask = &Reader::ask_constants},
    {.period_ns = 5 * kSecond, .ask = &Reader::ask_graphics_processes, .of_processes = true},
    {.period_ns = 5 * kSecond, .ask = &Reader::ask_mps_processes, .of_processes = true},
    {.period_ns = 1 * kSecond, .ask = &Reader::ask_process_utilization, .of_processes = true},
}};

// The buffer where there is one. Where it is silent, the current rate, which some drivers report as not supported where
// the buffer was supported.
Return Reader::ask_ring(Ring& ring, Metric metric, uint32_t Utilization::*rate, Reading& reading) {
  if (until_ns_ == 0 && !ring.due(reading.time_ns)) return kSuccess;
  const Return drained = ring.usable() ? ring.drain(reading) : kNotSupported;
  if (device_gone(drained) || (ring.usable() && !ring.silent(reading.time_ns))) return drained;
  if (rates_ns_ != reading.time_ns) {
    const Return code = calls_.call(calls_.library.api.utilization, &rates_);
    if (code != kSuccess) {
      calls_.note(metric, code);
      // A silent buffer may get entries again.
      return is_final(code) && ring.usable() ? kSuccess : code;
    }
    rates_ns_ = reading.time_ns;
  }
  calls_.note(metric, kSuccess);
  // A rate over 100 is invalid.
  if (rates_.*rate <= 100) ring.add_plain(rates_.*rate, reading);
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
  if (until_ns_ == 0 && !power_ring_.due(reading.time_ns)) return kSuccess;
  if (power_ring_.usable()) {
    const Return code = power_ring_.drain(reading);
    power_from_ring_ = code == kSuccess || (power_from_ring_ && !power_ring_.silent(reading.time_ns));
    if (power_from_ring_ || device_gone(code)) return code;
  }
  if (fields_.has(Metric::kPower)) return power_ring_.usable() ? kSuccess : kNotSupported;
  uint32_t milliwatts = 0;
  const Return code = calls_.call(calls_.library.api.power, &milliwatts);
  calls_.note(Metric::kPower, code);
  if (code == kSuccess) power_ring_.add_plain(milliwatts * 1e-3, reading);
  return is_final(code) && power_ring_.usable() ? kSuccess : code;
}

Return Reader::ask_energy(Reading& reading) {
  if (fields_.has(Metric::kEnergy)) return kNotSupported;
  double millijoules = 0;
  const Return code = wide<&Api::energy>(calls_, millijoules);
  return tell(code, Metric::kEnergy, millijoules * 1e-3, reading);
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

// One a tick, or as many as a reading of everything has time for.
Return Reader::ask_constants(Reading& reading) {
  while (next_constant_ < constants().size()) {
    const Constant& c = constants()[next_constant_];
    double value = 0;
    const Return code = c.call(calls_, value);
    if (device_gone(code)) return code;
    ++next_constant_;
    tell(code, c.metric, value, reading);
    if (monotonic_ns() >= until_ns_) return kSuccess;
  }
  return kNotSupported;   // all are read
}

}  // namespace profgpu::nvml
