#include "analyse/rank/replay.h"

#include <algorithm>
#include <cmath>

#include "analyse/rank/devices.h"
#include "analyse/rank/first_use.h"
#include "analyse/rank/idle.h"
#include "analyse/rank/names.h"
#include "analyse/rank/phases.h"
#include "analyse/rank/steps.h"
#include "base/statistics.h"
#include "trace/radix_sort.h"

namespace profgpu {
namespace {

// Delays that remain when nothing holds up an activity or a wait: the cost of a launch, a stream switch and a call.
constexpr int64_t kLaunchNs = 5'000;
constexpr int64_t kNextOnStreamNs = 1'000;
constexpr int64_t kWaitCallNs = 5'000;
// An activity that starts later than this after its launch and its predecessor is assumed to wait for another stream.
constexpr int64_t kUnexplainedNs = 10'000;
// The other stream's work ended at most this long before, and at most a quarter of the wait.
constexpr int64_t kReleaseNs = 100'000;
// Where the trace shows nothing of the host for so long, it may wait.
constexpr int64_t kSilenceNs = 100'000;
constexpr uint32_t kNoRow = UINT32_MAX;
constexpr int64_t kNever = INT64_MIN / 2;   // far enough from INT64_MIN to subtract from

enum class EventKind : uint8_t { kLaunch, kWaitStart, kActivity, kWaitEnd };

struct Event {
  int64_t time;
  uint32_t row;      // of Model::launches, waits or the activity table
  EventKind kind;
};
uint64_t sort_key(const Event& event) { return ordered(event.time); }

/// What an activity waited for; times as recorded.
struct Start {
  uint32_t launch = kNoRow;     // row of Trace::launching
  uint32_t before = kNoRow;     // the activity before it on its stream
  uint32_t other = kNoRow;      // the activity on another stream that it seems to have waited for
  // From each of these to the start; a minimum for those that were not the last.
  int64_t launch_delay = 0, before_delay = 0, other_delay = 0;
};

struct Wait {
  int64_t start, end;
  uint32_t activity = kNoRow;   // its end ended the wait
  bool unseen = false;          // it is not recorded, but possible
};

/// Measured steps of one profiler window that follow each other, as one stretch. What lies between two of these is no
/// time of a step: nothing can be saved there.
struct Run {
  int64_t start, end;           // of the host
  int64_t device_end;           // last end of an activity launched in it
  int64_t steps_ns;             // elapsed in its measured steps
  // It lasts until its device work is done: the host may have run ahead.
  [[nodiscard]] Interval whole() const { return {start, std::max(end, device_end)}; }
  // Scales a part of the whole to the steps' wall time.
  [[nodiscard]] int64_t share(int64_t ns) const {
    const int64_t all = whole().length();
    return ns == 0 || all == steps_ns   // the whole may be empty
               ? ns
               : std::llround(static_cast<double>(ns) * static_cast<double>(steps_ns) / static_cast<double>(all));
  }
};

}  // namespace

struct Replay::Model {
  std::vector<Event> events;
  std::vector<Start> starts;
  std::vector<Wait> waits;
  std::vector<Run> runs;
};

namespace {

// Whether a kernel started only when its long launching call was done, such as one that loads the kernel's module, and
// not when its stream was ready before.
bool is_held_by_call(const Trace& trace, ActivityId kernel, int64_t ready) {
  constexpr int64_t kLongCallNs = 100'000;
  if (trace.activity.kind[kernel.value] != ActivityKind::kKernel) return false;
  const HostId call = trace.activity.launch[kernel.value];
  const int64_t called = trace.host.end_ns(call);
  return trace.host.duration_ns[call.value] >= kLongCallNs && ready < called - kUnexplainedNs &&
         trace.activity.start_ns[kernel.value] >= called - kUnexplainedNs;
}

constexpr int kMostRunning = 16;   // activities of one queue at once, looked at

// The last activity of the queue whose last one to start is `last`, of those that have ended by `time`: the last one
// may run on beside what it does not hold up. kNoRow: none.
uint32_t last_ended(const ActivityTable& a, const std::vector<Start>& starts, uint32_t last, int64_t time) {
  for (int tries = 0; tries < kMostRunning && last != kNoRow; ++tries) {
    if (a.end_ns(ActivityId(last)) <= time) return last;
    last = starts[last].before;
  }
  return kNoRow;
}

std::vector<Start> find_starts(const Trace& trace) {
  const ActivityTable& a = trace.activity;
  std::vector<Start> starts(a.size());
  for (uint32_t i = 0; i < trace.launching.size(); ++i)
    for (uint32_t j = trace.launched_first[i]; j < trace.launched_first[i + 1]; ++j)
      starts[trace.launched[j].value].launch = i;
  std::vector<uint32_t> last(trace.queues.size(), kNoRow);
  for (const Trace::DeviceRows& rows : trace.device_rows) {
    for (uint32_t i = rows.begin.value; i < rows.end.value; ++i) {
      Start& s = starts[i];
      const int64_t start = a.start_ns[i];
      s.before = last[a.queue[i]];
      int64_t ready = kNever;
      if (s.before != kNoRow) ready = a.end_ns(ActivityId(s.before));
      int64_t launched = kNever;
      if (s.launch != kNoRow) launched = trace.host.start_ns[trace.launching[s.launch].value];
      if (launched > start) s.launch = kNoRow, launched = kNever;  // clocks disagree
      if (const int64_t waited = start - std::max(ready, launched); waited > kUnexplainedNs) {
        // The latest end on another stream that can have released it, shortly before.
        int64_t latest = start - std::max(kUnexplainedNs, std::min(kReleaseNs, waited / 4));
        for (size_t q = 0; q < last.size(); ++q) {
          if (q == a.queue[i] || trace.queues[q].device != rows.device) continue;
          const uint32_t ended = last_ended(a, starts, last[q], start);
          const int64_t end = ended == kNoRow ? kNever : a.end_ns(ActivityId(ended));
          if (end >= latest) s.other = ended, latest = end;
        }
      }
      const int64_t other = s.other == kNoRow ? kNever : a.end_ns(ActivityId(s.other));
      const bool by_call = s.launch != kNoRow && is_held_by_call(trace, ActivityId(i), ready);
      const int64_t held = by_call ? launched : std::max({ready, launched, other});
      const auto delay = [&](int64_t from, int64_t least) {
        if (from == kNever) return int64_t{0};
        return from == held ? start - from : std::min(start - from, least);
      };
      s.launch_delay = delay(launched, kLaunchNs);
      s.before_delay = delay(ready, kNextOnStreamNs);
      s.other_delay = delay(other, kNextOnStreamNs);
      last[a.queue[i]] = i;
    }
  }
  return starts;
}

// Threads that launch work, and that of the steps.
std::vector<ThreadId> launching_threads(const Facts& facts) {
  const Trace& trace = facts.trace();
  std::vector<bool> launches(trace.threads.size());
  for (const HostId call : trace.launching) launches[trace.host.thread[call.value].value] = true;
  if (const ThreadId of_steps = facts.get<Steps>().thread; of_steps.valid()) launches[of_steps.value] = true;
  std::vector<ThreadId> threads;
  for (size_t t = 0; t < launches.size(); ++t)
    if (launches[t] && trace.threads[t].begin != trace.threads[t].end) threads.emplace_back(t);
  return threads;
}

// Where no range of the thread starts for long; ranges are sorted by start.
Intervals without_starts(const Trace& trace, const Thread& thread) {
  Intervals silent;
  int64_t before = kNever;
  for (uint32_t i = thread.begin.value; i < thread.end.value; before = trace.host.start_ns[i++])
    if (trace.host.start_ns[i] - kSilenceNs >= before) append(silent, {before, trace.host.start_ns[i]});
  append(silent, {before, -kNever});
  return silent;
}

// Where these threads start and end nothing for long.
std::vector<Wait> find_silences(const Facts& facts) {
  const Trace& trace = facts.trace();
  const std::vector<ThreadId> threads = launching_threads(facts);
  Intervals silent{{kNever, -kNever}};
  for (const ThreadId t : threads) silent = intersect(silent, without_starts(trace, trace.threads[t.value]));
  std::vector<std::vector<int64_t>> cuts(silent.size());   // starts are within those that touched
  const auto cut = [&](int64_t time) {
    const size_t at = first_ending_after(silent, time);
    if (at < silent.size() && silent[at].contains(time)) cuts[at].push_back(time);
  };
  for (const ThreadId t : threads)
    for (uint32_t i = trace.threads[t.value].begin.value; i < trace.threads[t.value].end.value; ++i)
      cut(trace.host.start_ns[i]), cut(trace.host.end_ns(HostId(i)));
  std::vector<Wait> silences;
  for (size_t i = 0; i < silent.size(); ++i) {
    std::ranges::sort(cuts[i]);
    cuts[i].push_back(silent[i].end);
    int64_t from = silent[i].start;
    for (const int64_t end : cuts[i]) {
      if (from != kNever && end != -kNever && end - kSilenceNs >= from) silences.push_back({from, end, kNoRow, true});
      from = end;
    }
  }
  return silences;
}

// Per wait, the last activity that ended during it, of those launched before it began. Without recorded waits, those
// that are possible, until that activity's end.
std::vector<Wait> find_waits(const Facts& facts) {
  const Trace& trace = facts.trace();
  std::vector<Wait> waits;
  for (const auto& calls : facts.get<Waits>().calls)
    for (const HostId call : calls) waits.push_back({trace.host.start_ns[call.value], trace.host.end_ns(call)});
  if (waits.empty()) waits = find_silences(facts);
  std::ranges::sort(waits, {}, &Wait::end);
  std::vector<SortKey> ends;
  ends.reserve(trace.activity.size());
  for (uint32_t i = 0; i < trace.activity.size(); ++i)
    ends.push_back({ordered(trace.activity.end_ns(ActivityId(i))), i});
  radix_sort(ends);
  for (Wait& w : waits) {
    auto it = std::upper_bound(ends.begin(), ends.end(), SortKey{ordered(w.end), kNoRow}, less_by());
    for (int tries = 0; it != ends.begin() && tries < 256; ++tries) {
      --it;
      if (unordered(it->key) < w.start) break;
      const HostId launch = trace.activity.launch[it->row];
      if (launch.valid() && trace.host.start_ns[launch.value] > w.start) continue;
      w.activity = it->row;
      if (w.unseen) w.end = trace.activity.end_ns(ActivityId(it->row));
      break;
    }
  }
  return waits;
}

std::vector<Event> in_order(const Trace& trace, const std::vector<Wait>& waits) {
  std::vector<Event> events;
  events.reserve(trace.launching.size() + trace.activity.size() + 2 * waits.size());
  for (uint32_t i = 0; i < trace.launching.size(); ++i)
    events.push_back({trace.host.start_ns[trace.launching[i].value], i, EventKind::kLaunch});
  for (uint32_t i = 0; i < waits.size(); ++i) events.push_back({waits[i].start, i, EventKind::kWaitStart});
  for (uint32_t i = 0; i < trace.activity.size(); ++i)
    events.push_back({trace.activity.start_ns[i], i, EventKind::kActivity});
  for (uint32_t i = 0; i < waits.size(); ++i) events.push_back({waits[i].end, i, EventKind::kWaitEnd});
  radix_sort(events);
  return events;
}

// Without marked steps the trace is one, which lasts until the device is done. The host may have ended before.
Interval host_part(const Trace& trace, const Steps& steps, const Step& step) {
  Interval part = step.interval();
  if (steps.marked()) return part;
  int64_t end = INT64_MIN;
  for (uint32_t i = 0; i < trace.host.size(); ++i) end = std::max(end, trace.host.end_ns(HostId(i)));
  if (end > part.start) part.end = std::min(part.end, end);
  return part;
}

// Without host events only the device's time is known.
void end_with_device(const Trace& trace, std::vector<Run>& runs) {
  int64_t last = INT64_MIN;
  for (uint32_t i = 0; i < trace.activity.size(); ++i) last = std::max(last, trace.activity.end_ns(ActivityId(i)));
  for (Run& run : runs) run.device_end = std::max(run.start, std::min(run.end, last)), run.end = run.start;
}

// The last run that began by then; null: none.
Run* run_at(std::vector<Run>& runs, int64_t time) {
  const auto next = std::ranges::upper_bound(runs, time, {}, &Run::start);
  return next == runs.begin() ? nullptr : &*std::prev(next);
}

std::vector<Run> find_runs(const Facts& facts) {
  const Trace& trace = facts.trace();
  std::vector<Run> runs;
  int64_t elapsed_until = INT64_MIN;
  for (const Step* step : facts.get<Steps>().measured()) {
    const Interval part = host_part(trace, facts.get<Steps>(), *step);
    const bool same_window =
        !runs.empty() && profiler_window(trace, runs.back().start) == profiler_window(trace, part.start);
    const bool follows = step->elapsed.start <= elapsed_until;
    elapsed_until = step->elapsed.end;
    if (same_window && follows) {
      runs.back().steps_ns += step->elapsed.length();
      runs.back().end = std::max(runs.back().end, part.end);
    } else {
      runs.push_back({part.start, part.end, part.start, step->elapsed.length()});
    }
  }
  for (size_t i = 0; i < trace.launching.size(); ++i) {
    const int64_t launched = trace.host.start_ns[trace.launching[i].value];
    Run* run = run_at(runs, launched);
    if (run == nullptr || launched >= run->end) continue;
    for (uint32_t j = trace.launched_first[i]; j < trace.launched_first[i + 1]; ++j) {
      const ActivityId a = trace.launched[j];
      if (trace.activity.start_ns[a.value] >= run->start)   // else it starts before its launch: clocks disagree
        run->device_end = std::max(run->device_end, trace.activity.end_ns(a));
    }
  }
  if (trace.host.size() == 0) end_with_device(trace, runs);
  return runs;
}

/// One replay: when things happen without the removed cause.
class Player {
 public:
  Player(const Trace& trace, const std::vector<Start>& starts, const std::vector<Wait>& waits, const Removal& removal,
         bool unseen_waits)
      : trace_(trace), starts_(starts), waits_(waits), removal_(removal), unseen_waits_(unseen_waits) {
    launched_.resize(trace.launching.size());
    ended_.resize(trace.activity.size());
    wait_started_.resize(waits.size());
  }

  // The host's time corresponding to the recorded `time`; times must not decrease.
  int64_t host_at(int64_t time) {
    while (cut_ < removal_.host_time.size() && removal_.host_time[cut_].start < time) {
      const Interval& cut = removal_.host_time[cut_];
      const int64_t from = std::max(cut.start, reached_);
      const int64_t to = std::min(cut.end, time);
      if (to > from) earlier_ += to - from;
      if (cut.end > time) break;
      ++cut_;
    }
    reached_ = std::max(reached_, time);
    return time - earlier_;
  }

  void play(const Event& e) {
    const int64_t now = host_at(e.time);
    switch (e.kind) {
      case EventKind::kLaunch: launched_[e.row] = now; break;
      case EventKind::kWaitStart: wait_started_[e.row] = now; break;
      case EventKind::kActivity: start_activity(e.row); break;
      case EventKind::kWaitEnd: end_wait(e.row); break;
    }
  }

  [[nodiscard]] int64_t device_end() const { return device_end_; }
  void restart_device_end() { device_end_ = INT64_MIN; }

 private:
  void start_activity(uint32_t i) {
    const Start& s = starts_[i];
    const int64_t recorded = trace_.activity.start_ns[i];
    int64_t start = INT64_MIN;
    const auto after = [&](int64_t time, int64_t delay, bool shorten, int64_t least) {
      start = std::max(start, time + (shorten ? std::min(delay, least) : delay));
    };
    const int64_t launch_delay = s.launch_delay - removed_in_launch(s, i);
    const bool unexplained = std::max(launch_delay, s.before_delay) > kUnexplainedNs;
    const bool shorten = (removal_.dependency_waits && unexplained) || (removal_.launch_latency && !unexplained);
    const bool in_time = i < removal_.in_time.size() && removal_.in_time[i];
    if (s.launch != kNoRow && !in_time) after(launched_[s.launch], launch_delay, shorten, kLaunchNs);
    if (s.before != kNoRow)
      after(ended_[s.before], s.before_delay, shorten, removal_.launch_latency ? 0 : kNextOnStreamNs);
    if (s.other != kNoRow && !removal_.dependency_waits) after(ended_[s.other], s.other_delay, false, 0);
    const bool by_unseen_host = trace_.host.size() == 0 && s.before_delay > kUnexplainedNs && s.other == kNoRow;
    if (by_unseen_host && !unseen_waits_) start = recorded;
    if (start == INT64_MIN) start = recorded - earlier_;
    start = std::min(start, recorded);
    const bool gone = i < removal_.activity.size() && removal_.activity[i];
    const int64_t ns = trace_.activity.duration_ns[i];
    ended_[i] = start + (gone ? std::llround(removal_.left * static_cast<double>(ns)) : ns);
    device_end_ = std::max(device_end_, ended_[i]);
  }

  // A launching call may itself load a module: that part of the delay goes with the host's time.
  [[nodiscard]] int64_t removed_in_launch(const Start& s, uint32_t i) const {
    if (s.launch == kNoRow || removal_.host_time.empty()) return 0;
    const HostId call = trace_.launching[s.launch];
    const int64_t until = std::min(trace_.host.end_ns(call), trace_.activity.start_ns[i]);
    const Interval delayed{trace_.host.start_ns[call.value], until};
    return delayed.end > delayed.start ? std::min(overlap_length(removal_.host_time, delayed), s.launch_delay) : 0;
  }

  void end_wait(uint32_t w) {
    const Wait& wait = waits_[w];
    if (wait.activity == kNoRow || (wait.unseen && !unseen_waits_)) return;   // ordinary host time
    const int64_t least = std::min(wait.end - wait.start, kWaitCallNs);
    int64_t end = wait_started_[w] + least;
    if (!removal_.synchronization) {
      const int64_t after = wait.end - trace_.activity.end_ns(ActivityId(wait.activity));
      end = std::max(end, ended_[wait.activity] + after);
    }
    earlier_ = std::max(int64_t{0}, wait.end - std::min(end, wait.end));
  }

  const Trace& trace_;
  const std::vector<Start>& starts_;
  const std::vector<Wait>& waits_;
  const Removal& removal_;
  bool unseen_waits_;
  std::vector<int64_t> launched_, ended_, wait_started_;
  int64_t earlier_ = 0;      // recorded host time less the replayed one
  int64_t reached_ = INT64_MIN;
  int64_t device_end_ = INT64_MIN;
  size_t cut_ = 0;
};

Intervals allocation_time(const Facts& facts) {
  const Trace& trace = facts.trace();
  const Names& names = facts.get<Names>();
  Intervals calls;
  for (uint32_t i = 0; i < trace.host.size(); ++i)
    if (trace.host.is_call(HostId(i)) && names.call[trace.host.name[i].value] == CallKind::kMemory)
      calls.push_back(trace.host.interval(HostId(i)));
  return merged(std::move(calls));
}

std::vector<bool> activities_after(const Trace& trace, const DeviceIdle& idle, IdleCause cause) {
  std::vector<bool> after(trace.activity.size());
  idle.each([&](const Gap& gap) {
    if (gap.cause == cause && gap.after.valid()) after[gap.after.value] = true;
  });
  return after;
}

}  // namespace

Replay Replay::compute(const Facts& facts) {
  Replay replay;
  replay.facts_ = &facts;
  auto model = std::make_shared<Model>();
  model->starts = find_starts(facts.trace());
  model->waits = find_waits(facts);
  model->events = in_order(facts.trace(), model->waits);
  model->runs = find_runs(facts);
  replay.model_ = std::move(model);
  return replay;
}

int64_t Replay::played(const Removal& removal, bool unseen_waits) const {
  Player player(facts_->trace(), model_->starts, model_->waits, removal, unseen_waits);
  int64_t saved = 0;
  size_t at = 0;
  const auto play_to = [&](int64_t time) {
    for (; at < model_->events.size() && model_->events[at].time < time; ++at) player.play(model_->events[at]);
  };
  for (const Run& run : model_->runs) {
    play_to(run.start);
    const int64_t start = player.host_at(run.start);
    player.restart_device_end();
    play_to(run.end + 1);   // a wait may end with the step
    const int64_t host_end = player.host_at(run.end);
    play_to(run.device_end);
    const int64_t recorded = run.whole().length();
    const int64_t taken = std::max(host_end, player.device_end()) - start;
    saved += run.share(std::clamp<int64_t>(recorded - taken, 0, recorded));
  }
  return std::min(saved, total_length(facts_->get<Steps>().measured_time()));
}

Saving Replay::saved_by(const Removal& removal) const {
  const int64_t least_ns = played(removal, false);
  const bool unseen = facts_->trace().host.size() == 0 || std::ranges::any_of(model_->waits, &Wait::unseen);
  return {least_ns, unseen ? std::max(least_ns, played(removal, true)) : least_ns};
}

int64_t Replay::of_runs(const Intervals& time) const {
  return sum_of(model_->runs, [&](const Run& run) { return run.share(overlap_length(time, run.whole())); });
}

Saving Replay::saved_by_cause(IdleCause cause, size_t device) const {
  const Phases& phases = facts_->get<Phases>();
  const DeviceIdle& idle = facts_->get<Idle>().devices[device];
  Intervals idle_time = idle.time_of(cause);
  Removal removal;
  switch (cause) {
    case IdleCause::kUnknown:
    case IdleCause::kUntracedWork:
    case IdleCause::kNoRequests: return {};
    case IdleCause::kLaunchLatency: removal.launch_latency = true; break;
    case IdleCause::kDependency: removal.dependency_waits = true; break;
    case IdleCause::kCheckpoint: removal.host_time = phases.checkpoint; break;
    case IdleCause::kDataLoading:
      removal.host_time = unite(phases.data_loading, facts_->get<InputWaits>().all_reads());
      break;
    case IdleCause::kMemoryAllocation: removal.host_time = allocation_time(*facts_); break;
    case IdleCause::kSynchronization: removal.synchronization = true; break;
    case IdleCause::kHostBound:
      removal.host_time = idle_time;
      removal.in_time = activities_after(facts_->trace(), idle, cause);
      break;
    case IdleCause::kFirstUse:
      for (const Intervals& of_thread : facts_->get<FirstUse>().time)
        removal.host_time = unite(removal.host_time, of_thread);
      removal.in_time = activities_after(facts_->trace(), idle, cause);
      break;
  }
  const int64_t most = of_runs(idle_time);
  if (most == 0) return {};
  const bool of_host = !removal.launch_latency && !removal.dependency_waits;
  int64_t least = of_host ? played(removal, false) : 0;
  // Devices that fetch their data themselves wait without the host.
  if (cause == IdleCause::kDataLoading)
    least = std::max(least, of_runs(intersect(idle_time, facts_->get<InputWaits>().infeed)));
  return (of_host ? Saving{least, least} : saved_by(removal)).up_to(most);
}

Saving Replay::saved_by_communication(size_t device) const {
  const Devices& devices = facts_->get<Devices>();
  const int64_t most = of_runs(devices.devices[device].exposed_communication);
  if (most == 0) return {};
  Removal removal;
  removal.activity.resize(devices.kind.size());
  for (size_t i = 0; i < devices.kind.size(); ++i) removal.activity[i] = devices.kind[i] == WorkKind::kCommunication;
  return saved_by(removal).up_to(most);
}

}  // namespace profgpu
