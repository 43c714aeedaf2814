#include "analyse/rank/idle.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "analyse/rank/devices.h"
#include "analyse/rank/first_use.h"
#include "analyse/rank/launch.h"
#include "analyse/rank/names.h"
#include "analyse/rank/places.h"
#include "analyse/rank/request_waits.h"
#include "analyse/rank/steps.h"
#include "base/statistics.h"

namespace profgpu {
namespace {

// An asynchronous copy from or to pageable memory waits too: a longer copying call does more than queue the copy.
constexpr int64_t kLongCopyCallNs = 20'000;

bool is_blocking_copy(const Trace& trace, HostId call, ActivityId copy) {
  return trace.activity.kind[copy.value] == ActivityKind::kMemcpy &&
         trace.host.duration_ns[call.value] >= kLongCopyCallNs &&
         trace.host.end_ns(call) >= trace.activity.start_ns[copy.value];   // it returned once the copy had begun
}

// Launches that lasted until the device had taken something out of a full queue.
std::vector<HostId> held_launches(const Trace& trace) {
  const HostTable& h = trace.host;
  std::vector<HostId> calls;
  const StringId full = trace.strings.find(kFullQueue);
  for (uint32_t i = 0; i < h.size() && full.valid(); ++i) {
    if (h.kind[i] != HostKind::kOverhead || h.name[i] != full) continue;
    const HostId call = h.parent[i];
    if (call.valid() && h.is_call(call) && 2 * h.duration_ns[i] > h.duration_ns[call.value]) calls.push_back(call);
  }
  return calls;
}

}  // namespace

Waits Waits::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  const Names& names = facts.get<Names>();
  const HostTable& h = trace.host;
  std::vector<bool> blocking_copy(h.size());
  for (size_t i = 0; i < trace.launching.size(); ++i)
    blocking_copy[trace.launching[i].value] =
        is_blocking_copy(trace, trace.launching[i], trace.launched[trace.launched_first[i]]);
  Waits waits;
  waits.calls.resize(trace.threads.size());
  waits.device_waits.resize(trace.threads.size());
  for (const HostId call : held_launches(trace)) blocking_copy[call.value] = true;
  for (size_t t = 0; t < trace.threads.size(); ++t) {
    for (uint32_t i = trace.threads[t].begin.value; i < trace.threads[t].end.value; ++i) {
      if (!h.is_call(HostId(i))) continue;
      if (names.call[h.name[i].value] != CallKind::kSynchronize && !blocking_copy[i]) continue;
      waits.calls[t].emplace_back(i);
      waits.device_waits[t].push_back(h.interval(HostId(i)));
    }
    waits.device_waits[t] = merged(std::move(waits.device_waits[t]));
  }
  return waits;
}

namespace {

// A long call of the C library that reads, while the device has nothing to do: the data are what it waits for.
bool awaits_input(const Trace& trace, HostId h) {
  constexpr int64_t kLongRead_ns = 1'000'000;
  constexpr std::string_view kReads[] = {"read",   "pread",   "pread64", "readv",   "preadv", "preadv64",
                                         "fread",  "fgets",   "getline", "fread_unlocked"};
  return trace.host.kind[h.value] == HostKind::kSystem && trace.host.duration_ns[h.value] >= kLongRead_ns &&
         std::ranges::count(kReads, trace.name(h)) > 0;
}

}  // namespace

InputWaits InputWaits::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  InputWaits waits;
  waits.reads.resize(trace.threads.size());
  for (uint32_t i = 0; i < trace.host.size(); ++i) {
    const Interval range = trace.host.interval(HostId(i));
    if (awaits_input(trace, HostId(i))) waits.reads[trace.host.thread[i].value].push_back(range);
    if (trace.host.kind[i] == HostKind::kAnnotation && trace.name(HostId(i)).starts_with("infeed"))
      waits.infeed.push_back(range);
  }
  waits.infeed = merged(std::move(waits.infeed));
  for (Intervals& of_thread : waits.reads) of_thread = merged(std::move(of_thread));
  return waits;
}

Intervals InputWaits::all_reads() const {
  Intervals all;
  for (const Intervals& of_thread : reads) all.insert(all.end(), of_thread.begin(), of_thread.end());
  return merged(std::move(all));
}

// Causes are tried in the order of output.md. "Launch" is the start of the call that launched the activity after the
// gap; the launching thread is that call's.

namespace {

constexpr int64_t kShortNs = 10'000;   // output.md's 10 µs, for launch latency and for the time after a wait
constexpr int64_t kLongWaitNs = 1'000'000;   // from launch to start: more than latency
constexpr size_t kNamedGaps = 64;      // longest gaps per cause and device whose host range is looked up

/// Time of each thread in ranges of a kind, merged.
struct HostTime {
  std::vector<Intervals> checkpoint, data_loading, allocation;

  explicit HostTime(const Facts& facts) {
    const Trace& trace = facts.trace();
    const Names& names = facts.get<Names>();
    for (std::vector<Intervals>* kind : {&checkpoint, &data_loading, &allocation}) kind->resize(trace.threads.size());
    for (uint32_t i = 0; i < trace.host.size(); ++i) {
      const uint32_t name = trace.host.name[i].value, thread = trace.host.thread[i].value;
      const Interval range = trace.host.interval(HostId(i));
      if (trace.host.is_call(HostId(i))) {
        if (names.call[name] == CallKind::kMemory) allocation[thread].push_back(range);
      } else if (trace.host.kind[i] != HostKind::kPython) {
        if (names.phase[name] == Phase::kCheckpoint) checkpoint[thread].push_back(range);
        if (names.phase[name] == Phase::kDataLoading) data_loading[thread].push_back(range);
      }
    }
    const std::vector<Intervals>& reads = facts.get<InputWaits>().reads;
    for (size_t t = 0; t < reads.size(); ++t)
      data_loading[t].insert(data_loading[t].end(), reads[t].begin(), reads[t].end());
    for (std::vector<Intervals>* kind : {&checkpoint, &data_loading, &allocation})
      for (Intervals& part : *kind) part = merged(std::move(part));
  }
};

// What a program does once, before it has a context.
bool begins_runtime(std::string_view name) {
  return name == "cuInit" || name == "hipInit" || name == "cuModuleGetLoadingMode" || name.starts_with("cuCtxCreate") ||
         name == "cuDevicePrimaryCtxRetain";
}

class GapReader {
 public:
  GapReader(const Facts& facts, const HostTime& host_time, const DeviceTime& device, const Intervals& any_busy)
      : trace_(facts.trace()), host_time_(host_time), first_use_(facts.get<FirstUse>()), waits_(facts.get<Waits>()),
        request_waits_(facts.get<RequestWaits>()), lost_launches_(facts.get<LostLaunches>()), device_(device),
        any_busy_(any_busy), infeed_(facts.get<InputWaits>().infeed), step_thread_(facts.get<Steps>().thread),
        has_steps_(facts.get<Steps>().annotated || facts.get<Steps>().estimated > 0) {
    for (const auto& calls : waits_.calls)
      for (const HostId call : calls)
        wait_ends_.push_back({trace_.host.end_ns(call), trace_.host.start_ns[call.value]});
    std::sort(wait_ends_.begin(), wait_ends_.end());
    for (uint32_t i = 0; i < trace_.host.size(); ++i)
      if (trace_.host.is_call(HostId(i)) && begins_runtime(trace_.name(HostId(i))))
        program_start_ = std::min(program_start_, trace_.host.start_ns[i]);
    const std::vector<bool>& is_host_function = facts.get<Names>().host_function;
    for (uint32_t i = 0; i < trace_.host.size(); ++i)
      if (trace_.host.is_call(HostId(i)) && is_host_function[trace_.host.name[i].value])
        host_functions_.push_back(trace_.host.start_ns[i]);
    std::ranges::sort(host_functions_);
    earliest_launch_.assign(device.end.value - device.begin.value + 1, INT64_MAX);
    for (uint32_t i = device.end.value; i-- > device.begin.value;) {
      int64_t launch = INT64_MAX;
      if (trace_.activity.launch[i].valid()) launch = trace_.host.start_ns[trace_.activity.launch[i].value];
      const size_t at = i - device.begin.value;
      earliest_launch_[at] = std::min(launch, earliest_launch_[at + 1]);
    }
  }

  [[nodiscard]] IdleCause cause(const Gap& gap) const {
    if (trace_.host.size() == 0) return IdleCause::kUnknown;
    if (!gap.before.valid() && begins_program(gap)) return IdleCause::kFirstUse;
    if (lost_launches_.explain(trace_, gap)) return IdleCause::kUntracedWork;
    if (mostly(infeed_, gap.time())) return IdleCause::kDataLoading;
    if (!gap.after.valid())   // until the end of the last step
      return step_thread_.valid() ? cause_on(step_thread_.value, gap, gap.time()) : IdleCause::kUnknown;
    if (!gap.launch.valid()) return IdleCause::kUnknown;
    const int64_t launch = trace_.host.start_ns[gap.launch.value];
    const uint32_t thread = trace_.host.thread[gap.launch.value].value;
    // The call itself may take long: it loads a module, or creates the context.
    const int64_t called = std::clamp(trace_.host.end_ns(gap.launch), gap.start_ns, gap.end_ns);
    if (mostly(first_use_.time[thread], {gap.start_ns, called}) && 2 * (called - gap.start_ns) > gap.length())
      return IdleCause::kFirstUse;
    if (launch < gap.start_ns) {
      if (gap.length() < kShortNs) return IdleCause::kLaunchLatency;
      return is_unexplained_wait(gap) ? IdleCause::kUntracedWork : IdleCause::kDependency;
    }
    const Interval launched{std::min(launch, gap.end_ns), gap.end_ns};
    if (launched.length() >= kLongWaitNs && 2 * launched.length() > gap.length())
      return cause_of_late_start(gap, thread, launched);
    return cause_on(thread, gap, {gap.start_ns, launched.start});
  }

 private:
  // CUDA itself begins before the device's first work: all up to there is the program's start.
  [[nodiscard]] bool begins_program(const Gap& gap) const {
    return program_start_ >= gap.start_ns && program_start_ < gap.end_ns && gap.after.valid();
  }
  static bool mostly(const Intervals& kind, Interval part) {
    return 2 * overlap_length(kind, part) > part.length();
  }

  // From what the thread does until it launches, or until the end.
  [[nodiscard]] IdleCause cause_on(uint32_t thread, const Gap& gap, Interval before) const {
    if (mostly(host_time_.checkpoint[thread], before)) return IdleCause::kCheckpoint;
    if (mostly(host_time_.data_loading[thread], before)) return IdleCause::kDataLoading;
    if (mostly(first_use_.time[thread], before)) return IdleCause::kFirstUse;
    if (mostly(host_time_.allocation[thread], before)) return IdleCause::kMemoryAllocation;
    if (request_waits_.explain(thread, before)) return IdleCause::kNoRequests;
    const bool queued = gap.after.valid() && !nothing_queued(gap);
    if (!queued && host_had_waited(gap, before.end)) return IdleCause::kSynchronization;
    if (!queued && mostly(waits_begun_in(thread, gap), before) && overlap_length(any_busy_, before) == 0)
      return IdleCause::kUntracedWork;
    // Without steps nothing tells that any work was to come.
    return gap.after.valid() || has_steps_ ? IdleCause::kHostBound : IdleCause::kUnknown;
  }
  // For work launched in the gap, long before it started. If no recorded activity ran meanwhile on any device, it
  // waited for work from before the recording; else for another stream or device.
  [[nodiscard]] IdleCause cause_of_late_start(const Gap& gap, uint32_t thread, Interval launched) const {
    if (overlap_length(any_busy_, launched) > 0) return IdleCause::kDependency;
    return !gap.before.valid() || mostly(waits_.device_waits[thread], launched) ? IdleCause::kUntracedWork
                                                                                : IdleCause::kDependency;
  }
  // Whether work is queued and nothing recorded can delay it: no stream of any device runs, and no host function was
  // queued since the activity before. Shorter gaps come from the hardware: a graph's start, a lowered clock.
  [[nodiscard]] bool is_unexplained_wait(const Gap& gap) const {
    if (gap.length() < kLongWaitNs || overlap_length(any_busy_, gap.time()) > 0) return false;
    const HostId before = gap.before.valid() ? trace_.activity.launch[gap.before.value] : HostId();
    const int64_t since = before.valid() ? trace_.host.start_ns[before.value] : gap.start_ns;
    const auto queued = std::ranges::lower_bound(host_functions_, std::min(since, gap.start_ns));
    return queued == host_functions_.end() || *queued >= gap.end_ns;
  }
  [[nodiscard]] Intervals waits_begun_in(uint32_t thread, const Gap& gap) const {
    const Intervals& all = waits_.device_waits[thread];
    const auto from = [](const Interval& wait, int64_t time) { return wait.start < time; };
    return {std::lower_bound(all.begin(), all.end(), gap.start_ns, from),
            std::lower_bound(all.begin(), all.end(), gap.end_ns, from)};
  }
  // Whether a wait began before the gap and ended just before it, or in it before the launch.
  [[nodiscard]] bool host_had_waited(const Gap& gap, int64_t launch) const {
    auto it = std::upper_bound(wait_ends_.begin(), wait_ends_.end(), std::pair(gap.start_ns - kShortNs, INT64_MAX));
    for (; it != wait_ends_.end() && it->first <= launch; ++it)
      if (it->second < gap.start_ns) return true;
    return false;
  }
  // Whether no later activity had been launched before the gap.
  [[nodiscard]] bool nothing_queued(const Gap& gap) const {
    return earliest_launch_[gap.after.value - device_.begin.value] >= gap.start_ns;
  }

  const Trace& trace_;
  const HostTime& host_time_;
  const FirstUse& first_use_;
  const Waits& waits_;
  const RequestWaits& request_waits_;
  const LostLaunches& lost_launches_;
  const DeviceTime& device_;
  const Intervals& any_busy_;                            // on any of the process's devices
  const Intervals& infeed_;
  ThreadId step_thread_;
  bool has_steps_;
  int64_t program_start_ = INT64_MAX;                    // of the first call that makes CUDA ready
  std::vector<std::pair<int64_t, int64_t>> wait_ends_;   // end, start
  std::vector<int64_t> host_functions_;                  // starts of the calls that queue one
  std::vector<int64_t> earliest_launch_;                 // of activity i and all later ones
};

std::vector<Gap> gaps_of(const Trace& trace, const DeviceTime& d) {
  std::vector<Gap> gaps;
  int64_t busy_until = INT64_MIN;
  ActivityId last;
  size_t span = 0;
  for (uint32_t i = d.begin.value; i < d.end.value; ++i) {
    const Interval part = trace.activity.interval(ActivityId(i));
    const bool new_span = span + 1 < d.spans.size() && part.start >= d.spans[span + 1].start;
    span += new_span;
    if (last.valid() && !new_span && part.start > busy_until)
      gaps.push_back({busy_until, part.start, IdleCause::kUnknown, last, ActivityId(i), trace.activity.launch[i], {}});
    if (!last.valid() || part.end >= busy_until) last = ActivityId(i);
    busy_until = std::max(busy_until, part.end);
  }
  return gaps;
}

// Per profiler window, from the first step or activity to the last.
Intervals device_window(const Trace& trace, const Steps& steps, const DeviceTime& device) {
  std::vector<Interval> windows(trace.windows.size(), {INT64_MAX, INT64_MIN});
  const auto include = [&](const Interval& part) {
    if (windows.empty()) return;
    size_t at = 0;
    while (at + 1 < windows.size() && trace.windows[at + 1].start <= part.start) ++at;
    windows[at] = hull(windows[at], part);
  };
  for (const Step& s : steps.steps) include(s.interval());
  for (const Interval& span : device.spans) include(span);
  std::erase_if(windows, [](const Interval& w) { return w.end <= w.start; });
  return merged(std::move(windows));
}

// Before the first activity of each window, and after the last.
std::vector<Gap> edges_of(const Trace& trace, const DeviceTime& d, const Intervals& window) {
  std::vector<Gap> edges;
  uint32_t i = d.begin.value;
  for (const Interval& w : window) {
    const uint32_t first = i;
    ActivityId last;
    for (; i < d.end.value && trace.activity.start_ns[i] <= w.end; ++i)
      if (!last.valid() || trace.activity.end_ns(ActivityId(i)) >= trace.activity.end_ns(last)) last = ActivityId(i);
    const int64_t begun = last.valid() ? trace.activity.start_ns[first] : w.end;
    const int64_t ended = last.valid() ? trace.activity.end_ns(last) : w.end;
    if (begun > w.start && last.valid())
      edges.push_back({w.start, begun, IdleCause::kUnknown, {}, ActivityId(first), trace.activity.launch[first], {}});
    else if (begun > w.start) edges.push_back({w.start, begun, IdleCause::kUnknown, {}, {}, {}, {}});
    if (ended < w.end) edges.push_back({ended, w.end, IdleCause::kUnknown, last, {}, {}, {}});
  }
  return edges;
}

// The range that covers most of `wait` on the thread, each instant counting for the innermost range; Python frames do
// not count. Invalid: more time is in none.
HostId mostly_in(const Trace& trace, ThreadId thread, Interval wait) {
  const std::unordered_map<uint32_t, int64_t> self = self_times(trace, thread, wait, false);
  HostId best;
  int64_t most = wait.length();
  for (const auto& [row, time] : self) most -= time;   // not covered
  for (const auto& [row, time] : self)
    if (time > most || (time == most && best.valid() && row < best.value)) best = HostId(row), most = time;
  return best;
}

void name_longest(const Trace& trace, ThreadId step_thread, DeviceIdle& idle) {
  std::vector<Gap*> gaps;
  for (std::vector<Gap>* part : {&idle.gaps, &idle.edges})
    for (Gap& gap : *part)
      if (!gap.after.valid() || (gap.launch.valid() && trace.host.start_ns[gap.launch.value] > gap.start_ns))
        gaps.push_back(&gap);
  std::ranges::sort(gaps, {}, [](const Gap* g) { return longest_first(*g); });
  std::array<size_t, kIdleCauses> named{};
  for (Gap* gap : gaps) {
    if (++named[static_cast<size_t>(gap->cause)] > kNamedGaps) continue;
    const ThreadId thread = gap->launch.valid() ? trace.host.thread[gap->launch.value] : step_thread;
    const int64_t launch = gap->launch.valid() ? trace.host.start_ns[gap->launch.value] : gap->end_ns;
    if (thread.valid()) gap->host = mostly_in(trace, thread, {gap->start_ns, std::min(launch, gap->end_ns)});
  }
}

// Where the thread that ends the gap mostly is until it launches; none if it launched before the gap.
std::optional<std::string> place_in(const Facts& facts, const Gap& gap) {
  const Trace& trace = facts.trace();
  const bool launched = gap.launch.valid();
  if (gap.after.valid() && !launched) return std::nullopt;
  const ThreadId thread = launched ? trace.host.thread[gap.launch.value] : facts.get<Steps>().thread;
  const int64_t until = launched ? std::min(trace.host.start_ns[gap.launch.value], gap.end_ns) : gap.end_ns;
  if (!thread.valid() || until <= gap.start_ns) return std::nullopt;
  Places places(facts);
  places.add_host_time(thread, {gap.start_ns, until});
  const std::vector<Place> most = places.most_expensive(1);
  if (most.empty() || most.front().file.empty()) return std::nullopt;
  const Place& p = most.front();
  return fmt::format("{} ({}:{}){}{}", p.name, p.file, p.line.value_or(0), p.module.empty() ? "" : " in ", p.module);
}

std::vector<NamedGap> longest_of(const Facts& facts, const std::vector<Gap>& gaps, IdleCause cause) {
  constexpr size_t kMost = 5;
  const Trace& trace = facts.trace();
  const auto name = [&](auto id) { return only_if(id.valid(), id.valid() ? std::string(trace.name(id)) : ""); };
  std::vector<NamedGap> named;
  for (const Gap* g : longest_gaps(gaps, kMost, [&](const Gap& gap) { return gap.cause == cause; }))
    named.push_back({g->start_ns, g->length(), name(g->before), name(g->after), name(g->host),
                     place_in(facts, *g)});
  return named;
}

}  // namespace

std::string_view idle_cause_name(IdleCause cause) {
  constexpr std::array<std::string_view, kIdleCauses> kNames = {
      "unknown",      "launch_latency",    "dependency",      "checkpoint",
      "data_loading", "memory_allocation", "synchronization", "host_bound",
      "first_use",    "untraced_work",     "no_requests"};
  return kNames[static_cast<size_t>(cause)];
}

LostLaunches LostLaunches::compute(const Facts& facts) {
  const KernelLaunches& launches = facts.get<KernelLaunches>();
  LostLaunches lost;
  for (const HostId call : launches.calls)
    if (!launches.has_activity[call.value]) lost.start_ns.push_back(facts.trace().host.start_ns[call.value]);
  std::ranges::sort(lost.start_ns);
  return lost;
}

double LostLaunches::pct(const Trace& trace) const {
  const auto recorded = std::ranges::count(trace.activity.kind, ActivityKind::kKernel);
  return percent_of(start_ns.size(), start_ns.size() + static_cast<size_t>(recorded));
}

bool LostLaunches::are_most(const Facts& facts) const {
  constexpr double kMost_pct = 50;
  const auto captures = [](const Intervals& of_thread) { return !of_thread.empty(); };
  return pct(facts.trace()) > kMost_pct && std::ranges::none_of(facts.get<FirstUse>().capture, captures);
}

bool LostLaunches::explain(const Trace& trace, const Gap& gap) const {
  if (start_ns.size() < kMinLost) return false;
  const auto launched = [&](ActivityId a, int64_t otherwise) {
    const HostId call = a.valid() ? trace.activity.launch[a.value] : HostId();
    return call.valid() ? trace.host.start_ns[call.value] : otherwise;
  };
  const int64_t first = std::min(gap.start_ns, launched(gap.before, gap.start_ns));
  const int64_t next = launched(gap.after, gap.end_ns);
  const int64_t last = next < gap.start_ns ? next : gap.end_ns;
  return std::ranges::lower_bound(start_ns, last) - std::ranges::lower_bound(start_ns, first) >= kMinLost;
}

Intervals DeviceIdle::time_of(IdleCause cause) const {
  Intervals time;
  each([&](const Gap& gap) {
    if (gap.cause == cause) time.push_back(gap.time());
  });
  return merged(std::move(time));
}

std::vector<Gap> DeviceIdle::all() const {
  std::vector<Gap> both;
  both.reserve(gaps.size() + edges.size());
  each([&](const Gap& gap) { both.push_back(gap); });
  return both;
}

std::vector<IdleRow> IdleRow::rows(const Facts& facts) {
  const Devices& devices = facts.get<Devices>();
  const Idle& idle = facts.get<Idle>();
  std::vector<IdleRow> rows;
  for (size_t d = 0; d < idle.devices.size(); ++d) {
    const DeviceIdle& on = idle.devices[d];
    const int64_t window_ns = total_length(on.window);
    std::array<size_t, kIdleCauses> order{};
    std::iota(order.begin(), order.end(), 0);
    const auto all_ns = [&](size_t c) { return on.total_ns[c] + on.edge_ns[c]; };
    std::ranges::stable_sort(order, std::greater(), all_ns);
    for (const size_t c : order) {
      if (all_ns(c) == 0) continue;
      const auto cause = static_cast<IdleCause>(c);
      rows.push_back({on.device, cause, on.total_ns[c], percent_of(on.total_ns[c], devices.devices[d].span_ns),
                      on.count[c], on.edge_ns[c], percent_of(all_ns(c), window_ns),
                      longest_of(facts, on.gaps, cause), longest_of(facts, on.edges, cause)});
    }
  }
  return rows;
}

Idle Idle::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  const Steps& steps = facts.get<Steps>();
  const HostTime host_time(facts);
  const Intervals measured = steps.measured_time();
  Intervals any_busy;
  for (const DeviceTime& device : facts.get<Devices>().devices) any_busy = unite(any_busy, device.busy);
  Idle all;
  for (const DeviceTime& device : facts.get<Devices>().devices) {
    DeviceIdle& idle = all.devices.emplace_back();
    idle.device = device.id;
    idle.window = device_window(trace, steps, device);
    idle.gaps = gaps_of(trace, device);
    idle.edges = edges_of(trace, device, idle.window);
    const GapReader reader(facts, host_time, device, any_busy);
    const auto read = [&](std::vector<Gap>& gaps, std::array<int64_t, kIdleCauses>& sum) {
      for (Gap& gap : gaps) {
        gap.cause = reader.cause(gap);
        const auto c = static_cast<size_t>(gap.cause);
        sum[c] += gap.length();
        idle.measured_ns[c] += overlap_length(measured, gap.time());
      }
    };
    read(idle.gaps, idle.total_ns);
    for (const Gap& gap : idle.gaps) ++idle.count[static_cast<size_t>(gap.cause)];
    read(idle.edges, idle.edge_ns);
    name_longest(trace, steps.thread, idle);
  }
  return all;
}

}  // namespace profgpu
