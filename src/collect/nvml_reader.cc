#include "collect/nvml_reader.h"

#include <algorithm>

#include "base/clock.h"
#include "collect/nvml_constants.h"

namespace profgpu::nvml {
namespace {

constexpr int64_t kCallsPerTick = 3, kCallsPerSecond = 15;
constexpr int64_t kMostSaved = 4;           // by ticks with little to do, for one that follows
// The first turns, which a reading in full cannot do without, however short its time. Before anything else was read
// they are counters alone: what they grow by is of the run, what the others say is of the time before it.
constexpr size_t kIndispensable = 4, kCounters = 1;
constexpr int64_t kMoment_ns = 10'000'000;  // what was read so shortly before still holds where time is short; counters go on
constexpr int64_t kLongestEarning_ns = 60'000'000'000;
constexpr int64_t kProcessesNs = 10'000'000'000;  // without a request for so long they get no turns
constexpr int64_t kPowerRingHoldsNs = 2'500'000'000;

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
  credit_ = std::min(credit_, kMostSaved) + std::max(kCallsPerTick, since_ns * kCallsPerSecond / 1'000'000'000);
  const int64_t begun = calls_.made;
  Return code = read_fields(request, reading);
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
  const bool ring = power_ring_ns_ != 0 && reading.time_ns - power_ring_ns_ < kPowerRingHoldsNs;
  const Return code = fields_.read(request.now_ns, request.everything, ring, reading);
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
    // A tick that is a little early must not put a turn off by a whole tick.
    const int64_t due_ns = state.last_ns == 0 ? 0 : state.last_ns + kTurns[i].period_ns - kTurns[i].period_ns / 20;
    next_ns = std::min(next_ns, due_ns);
    if (due_ns > now_ns_) continue;
    const double overdue =
        state.last_ns == 0 ? 1e9 : static_cast<double>(now_ns_ - state.last_ns) / static_cast<double>(kTurns[i].period_ns);
    if (overdue <= most) continue;
    most = overdue;
    best = i;
  }
  none_due_before_ns_ = next_ns;
  return best;
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

}  // namespace profgpu::nvml
