#include "devices/nvml_reader.h"

#include <algorithm>

#include "base/clock.h"
#include "devices/nvml_fields.h"

namespace profgpu::nvml {
namespace {

constexpr int64_t kCallsPerTick = 3, kCallsPerSecond = 15;
constexpr int64_t kMaxSaved = 4;           // by ticks with little to do, for one that follows
// The first turns, which a reading in full cannot do without, however short its time. Before anything else was read
// they are counters alone: what they grow by is of the run, what the others say is of the time before it.
constexpr size_t kIndispensable = 4, kCounters = 1;
constexpr int64_t kMoment_ns =
    10'000'000;  // what was read so shortly before still holds where time is short; counters go on
constexpr int64_t kLongestEarning_ns = 60'000'000'000;
constexpr int64_t kProcessesNs = 10'000'000'000;  // without a request for so long they get no turns
constexpr int64_t kEachTick = 1;   // period of what every tick is for

}  // namespace

std::string DeviceCalls::why(Metric metric) const {
  const int code = answers[static_cast<size_t>(metric)].load(std::memory_order_relaxed);
  if (code == kSuccess) return {};
  if (code == kNeverAsked)
    return metric == Metric::kXgmiTx || metric == Metric::kXgmiRx ? "not a link of NVIDIA devices" : "not read yet";
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
  const int64_t since_ns = new_ ? 0 : std::clamp<int64_t>(now_ns_ - read_ns_, 0, kLongestEarning_ns);
  read_ns_ = now_ns_;
  credit_ = std::min(credit_, kMaxSaved) + std::max(kCallsPerTick, since_ns * kCallsPerSecond / 1'000'000'000);
  Return code = request.everything ? kSuccess : take_wanted(request, reading);
  const int64_t begun = calls_.made;   // what was asked for is not out of the budget
  if (code == kSuccess) code = read_fields(request, reading);
  if (code == kSuccess) code = read_processes(request);
  if (code == kSuccess) code = take_turns(request, begun, reading);
  if (processes_listed_) processes_.show(reading);
  // What the buffers get from here on is news, even if there was no time to look at them now.
  if (new_)
    for (Ring* ring : {&gpu_ring_, &memory_ring_, &power_ring_}) ring->begin(reading.time_ns);
  // What was asked for all at once need not be saved later.
  if (!request.everything) credit_ -= calls_.made - begun;
  if (code != kSuccess) return Error{words_of(code)};
  return ok();
}

Return Reader::read_fields(const ReadRequest& request, Reading& reading) {
  const Return code = fields_.read(request, power_from_ring_, reading);
  return device_gone(code) || code == kUnknown ? code : kSuccess;
}

// The list of compute processes is read when it is asked for; the others have turns.
Return Reader::read_processes(const ReadRequest& request) {
  processes_listed_ = false;
  // Those of an instance would be there twice if they counted on its GPU too.
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

// The calls that have turns, and how often each is due.

namespace {

constexpr int64_t kMs = 1'000'000, kSecond = 1'000'000'000;
constexpr uint32_t kUnknownPstate = 32;

}  // namespace

// In the order of a reading of everything; what every run needs comes first. The periods ask for about 16 calls a
// second; ticks of 0.2 s leave 9 or 10 besides the batch and processes, so that each turn comes about half as often as
// stated here; up to 0.1 s and from 1 s on the periods are kept.
constinit const std::array<Reader::Turn, 27> Reader::kTurns = {{
    {200 * kMs, 1, false, false, &Reader::ask_energy, Metric::kEnergy},
    {kEachTick, 1, false, false, &Reader::ask_utilization, Metric::kUtilization},
    {200 * kMs, 1, true, false, &Reader::ask_memory, Metric::kMemoryUsed, Metric::kMemoryReserved},
    {kEachTick, 1, false, false, &Reader::ask_power, Metric::kPower},
    {500 * kMs, 1, false, false, &Reader::ask_clock<kSmClock, Metric::kSmClock>, Metric::kSmClock},
    {1 * kSecond, 1, false, false, &Reader::ask_reasons, Metric::kClockEventReasons},
    {1 * kSecond, 1, false, false, &Reader::ask_memory_utilization, Metric::kMemoryUtilization},
    {1 * kSecond, 2, false, false, &Reader::ask_gpm, Metric::kGraphicsActive, Metric::kFp16Active},
    {2 * kSecond, 1, true, false, &Reader::ask_temperature, Metric::kTemperature},
    {5 * kSecond, 1, false, false, &Reader::ask_clock<kMemoryClock, Metric::kMemoryClock>, Metric::kMemoryClock},
    {5 * kSecond, 1, false, false, &Reader::ask_clock<kGraphicsClock, Metric::kGraphicsClock>, Metric::kGraphicsClock},
    {10 * kSecond, 1, false, false, &Reader::ask_clock<kVideoClock, Metric::kVideoClock>, Metric::kVideoClock},
    {5 * kSecond, 1, false, false, &Reader::ask_pstate, Metric::kPerformanceState},
    {5 * kSecond, 1, false, false, &Reader::ask_engine<&Api::encoder, Metric::kEncoderUtilization>,
     Metric::kEncoderUtilization},
    {5 * kSecond, 1, false, false, &Reader::ask_engine<&Api::decoder, Metric::kDecoderUtilization>,
     Metric::kDecoderUtilization},
    {20 * kSecond, 1, false, false, &Reader::ask_engine<&Api::jpeg, Metric::kJpegUtilization>,
     Metric::kJpegUtilization},
    {20 * kSecond, 1, false, false, &Reader::ask_engine<&Api::ofa, Metric::kOfaUtilization>, Metric::kOfaUtilization},
    {20 * kSecond, 1, false, false, &Reader::ask_bar1, Metric::kBar1Used},
    {20 * kSecond, 1, false, false, &Reader::ask_number<&Api::fan, Metric::kFanSpeed>, Metric::kFanSpeed},
    {10 * kSecond, 1, false, false, &Reader::ask_number<&Api::pcie_generation, Metric::kPcieGeneration>,
     Metric::kPcieGeneration},
    {10 * kSecond, 1, false, false, &Reader::ask_number<&Api::pcie_width, Metric::kPcieWidth>, Metric::kPcieWidth},
    {10 * kSecond, 1, false, false, &Reader::ask_number<&Api::power_limit, Metric::kPowerLimit>, Metric::kPowerLimit},
    {10 * kSecond, 1, false, false, &Reader::ask_margin, Metric::kTemperatureMargin},
    {100 * kMs, 1, false, false, &Reader::ask_constants},
    {5 * kSecond, 1, false, true, &Reader::ask_graphics_processes},
    {5 * kSecond, 1, false, true, &Reader::ask_mps_processes},
    {1 * kSecond, 1, false, true, &Reader::ask_process_utilization},
}};

// The buffer where there is one. Where it is silent the present rate is asked for, which some drivers report as not
// supported where the buffer was.
Return Reader::ask_ring(Ring& ring, Metric metric, uint32_t Utilization::*rate, Reading& reading) {
  if (until_ns_ == 0 && !ring.due(reading.time_ns)) return kSuccess;
  const Return drained = ring.usable() ? ring.drain(reading) : kNotSupported;
  if (device_gone(drained) || (ring.usable() && !ring.silent(reading.time_ns))) return drained;
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
