#include "analyse/rank/idle.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "analyse/rank/devices.h"
#include "analyse/rank/names.h"
#include "analyse/rank/steps.h"

namespace profgpu {
namespace {

// An asynchronous copy from or to pageable memory waits too; a call that takes longer than this and is linked to a
// copy did not merely queue it.
constexpr int64_t kLongCopyCallNs = 20'000;

bool is_blocking_copy(const Trace& trace, uint32_t call, ActivityId copy) {
  if (trace.activity.kind[copy.value] != ActivityKind::kMemcpy) return false;
  if (trace.host.duration_ns[call] < kLongCopyCallNs) return false;
  // It waited if it returned only about when the copy had ended.
  return trace.host.end_ns(HostId(call)) >= trace.activity.start_ns[copy.value];
}

}  // namespace

Waits Waits::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  const Names& names = facts.get<Names>();
  const HostTable& h = trace.host;
  std::vector<bool> blocking_copy(h.size());
  for (size_t i = 0; i < trace.launching.size(); ++i)
    if (is_blocking_copy(trace, trace.launching[i].value, trace.launched[trace.launched_first[i]]))
      blocking_copy[trace.launching[i].value] = true;
  Waits waits;
  waits.calls.resize(trace.threads.size());
  waits.device_waits.resize(trace.threads.size());
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

// Causes are tried in the order of output.md. "Launch" is the start of the call that launched the activity which ends
// the gap; the launching thread is that call's.

namespace {

constexpr int64_t kShortNs = 10'000;   // output.md's 10 µs, for launch latency and for how soon after a wait
constexpr size_t kNamedGaps = 64;      // gaps a cause and device whose host range is looked up, longest first

/// Time that each thread spends in ranges of a kind, merged.
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
    for (std::vector<Intervals>* kind : {&checkpoint, &data_loading, &allocation})
      for (Intervals& part : *kind) part = merged(std::move(part));
  }
};

class GapReader {
 public:
  GapReader(const Facts& facts, const HostTime& host_time, const DeviceTime& device)
      : trace_(facts.trace()), host_time_(host_time), waits_(facts.get<Waits>()), device_(device) {
    for (const auto& calls : waits_.calls)
      for (const HostId call : calls)
        wait_ends_.push_back({trace_.host.end_ns(call), trace_.host.start_ns[call.value]});
    std::sort(wait_ends_.begin(), wait_ends_.end());
    earliest_launch_.assign(device.end.value - device.begin.value + 1, INT64_MAX);
    for (uint32_t i = device.end.value; i-- > device.begin.value;) {
      int64_t launch = INT64_MAX;
      if (trace_.activity.launch[i].valid()) launch = trace_.host.start_ns[trace_.activity.launch[i].value];
      const size_t at = i - device.begin.value;
      earliest_launch_[at] = std::min(launch, earliest_launch_[at + 1]);
    }
  }

  [[nodiscard]] IdleCause cause(const Gap& gap) const {
    if (!gap.launch.valid() || trace_.host.size() == 0) return IdleCause::kUnknown;
    const int64_t launch = trace_.host.start_ns[gap.launch.value];
    if (launch < gap.start_ns) return gap.length() < kShortNs ? IdleCause::kLaunchLatency : IdleCause::kDependency;
    const uint32_t thread = trace_.host.thread[gap.launch.value].value;
    const Interval before{gap.start_ns, std::min(launch, gap.end_ns)};
    const auto mostly = [&](const Intervals& kind) { return 2 * overlap_length(kind, before) > before.length(); };
    if (mostly(host_time_.checkpoint[thread])) return IdleCause::kCheckpoint;
    if (mostly(host_time_.data_loading[thread])) return IdleCause::kDataLoading;
    if (mostly(host_time_.allocation[thread])) return IdleCause::kMemoryAllocation;
    if (host_had_waited(gap, before.end) && nothing_queued(gap)) return IdleCause::kSynchronization;
    return IdleCause::kHostBound;
  }

 private:
  // A wait that began before the gap and ended in it, before the launch, or just before it.
  [[nodiscard]] bool host_had_waited(const Gap& gap, int64_t launch) const {
    auto it = std::upper_bound(wait_ends_.begin(), wait_ends_.end(), std::pair(gap.start_ns - kShortNs, INT64_MAX));
    for (; it != wait_ends_.end() && it->first <= launch; ++it)
      if (it->second < gap.start_ns) return true;
    return false;
  }
  // No activity that starts after the gap had been launched before it.
  [[nodiscard]] bool nothing_queued(const Gap& gap) const {
    return earliest_launch_[gap.after.value - device_.begin.value] >= gap.start_ns;
  }

  const Trace& trace_;
  const HostTime& host_time_;
  const Waits& waits_;
  const DeviceTime& device_;
  std::vector<std::pair<int64_t, int64_t>> wait_ends_;   // end, start
  std::vector<int64_t> earliest_launch_;                 // of activity i and all that start after it
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
    if (last.valid() && !new_span && part.start > busy_until) {
      gaps.push_back({busy_until, part.start, IdleCause::kUnknown, last, ActivityId(i), trace.activity.launch[i], {}});
    }
    if (!last.valid() || part.end >= busy_until) last = ActivityId(i);
    busy_until = std::max(busy_until, part.end);
  }
  return gaps;
}

// The range in which `thread` spent most of `wait`, counting each instant for the innermost range only; Python frames
// do not count. Invalid if it was in none of them for longest.
HostId mostly_in(const Trace& trace, uint32_t thread, Interval wait) {
  const HostTable& h = trace.host;
  const Thread& t = trace.threads[thread];
  const auto first = h.start_ns.begin() + t.begin.value, end = h.start_ns.begin() + t.end.value;
  const auto from = std::upper_bound(first, end, wait.start);
  std::vector<HostId> rows;
  if (from != first) {
    HostId open(static_cast<size_t>(from - h.start_ns.begin() - 1));
    for (; open.valid(); open = h.parent[open.value])
      if (h.end_ns(open) > wait.start) rows.push_back(open);
  }
  for (auto it = from; it != end && *it < wait.end; ++it)
    rows.emplace_back(static_cast<size_t>(it - h.start_ns.begin()));
  std::unordered_map<uint32_t, int64_t> self;
  int64_t uncovered = wait.length();
  const auto within = [&](HostId id) {
    return std::min(h.end_ns(id), wait.end) - std::max(h.start_ns[id.value], wait.start);
  };
  for (const HostId id : rows) {
    if (h.kind[id.value] == HostKind::kPython) continue;
    self[id.value] += within(id);
    HostId parent = h.parent[id.value];
    while (parent.valid() && h.kind[parent.value] == HostKind::kPython) parent = h.parent[parent.value];
    if (parent.valid()) {
      self[parent.value] -= within(id);
    } else {
      uncovered -= within(id);
    }
  }
  HostId best;
  int64_t most = uncovered;
  for (const auto& [row, time] : self)
    if (time > most || (time == most && best.valid() && row < best.value)) best = HostId(row), most = time;
  return best;
}

void name_longest(const Trace& trace, DeviceIdle& idle) {
  std::vector<Gap*> gaps;
  for (Gap& gap : idle.gaps)
    if (gap.launch.valid() && trace.host.start_ns[gap.launch.value] > gap.start_ns) gaps.push_back(&gap);
  std::sort(gaps.begin(), gaps.end(), [](const Gap* a, const Gap* b) {
    return a->length() != b->length() ? a->length() > b->length() : a->start_ns < b->start_ns;
  });
  std::array<size_t, kIdleCauses> named{};
  for (Gap* gap : gaps) {
    if (++named[static_cast<size_t>(gap->cause)] > kNamedGaps) continue;
    const int64_t launch = std::min(trace.host.start_ns[gap->launch.value], gap->end_ns);
    gap->host = mostly_in(trace, trace.host.thread[gap->launch.value].value, {gap->start_ns, launch});
  }
}

std::vector<NamedGap> longest_gaps(const Trace& trace, const DeviceIdle& on, IdleCause cause) {
  constexpr size_t kMost = 5;
  std::vector<const Gap*> gaps;
  for (const Gap& g : on.gaps)
    if (g.cause == cause) gaps.push_back(&g);
  const auto end = gaps.begin() + static_cast<ptrdiff_t>(std::min(gaps.size(), kMost));
  std::partial_sort(gaps.begin(), end, gaps.end(), [](const Gap* a, const Gap* b) {
    return a->length() != b->length() ? a->length() > b->length() : a->start_ns < b->start_ns;
  });
  std::vector<NamedGap> named;
  for (auto gap = gaps.begin(); gap != end; ++gap) {
    const Gap& g = **gap;
    named.push_back({g.start_ns, g.length(), std::string(trace.name(g.before)), std::string(trace.name(g.after)), {}});
    if (g.host.valid()) named.back().host = trace.name(g.host);
  }
  return named;
}

}  // namespace

std::string_view idle_cause_name(IdleCause cause) {
  constexpr std::array<std::string_view, kIdleCauses> kNames = {
      "unknown",      "launch_latency",    "dependency",      "checkpoint",
      "data_loading", "memory_allocation", "synchronization", "host_bound"};
  return kNames[static_cast<size_t>(cause)];
}

std::vector<IdleRow> IdleRow::rows(const Facts& facts) {
  const Devices& devices = facts.get<Devices>();
  const Idle& idle = facts.get<Idle>();
  std::vector<IdleRow> rows;
  for (size_t d = 0; d < idle.devices.size(); ++d) {
    const DeviceIdle& on = idle.devices[d];
    const int64_t span_ns = devices.devices[d].span_ns;
    std::array<size_t, kIdleCauses> order{};
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return on.total_ns[a] > on.total_ns[b]; });
    for (const size_t c : order) {
      if (on.count[c] == 0) continue;
      const auto cause = static_cast<IdleCause>(c);
      const double pct = span_ns > 0 ? 100.0 * static_cast<double>(on.total_ns[c]) / static_cast<double>(span_ns) : 0;
      rows.push_back({on.device, cause, on.total_ns[c], pct, on.count[c], longest_gaps(facts.trace(), on, cause)});
    }
  }
  return rows;
}

Idle Idle::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  const HostTime host_time(facts);
  Intervals measured;
  for (const Step* step : facts.get<Steps>().measured()) measured.push_back(step->interval());
  measured = merged(std::move(measured));
  Idle all;
  for (const DeviceTime& device : facts.get<Devices>().devices) {
    DeviceIdle& idle = all.devices.emplace_back();
    idle.device = device.id;
    idle.gaps = gaps_of(trace, device);
    const GapReader reader(facts, host_time, device);
    for (Gap& gap : idle.gaps) {
      gap.cause = reader.cause(gap);
      const auto c = static_cast<size_t>(gap.cause);
      idle.total_ns[c] += gap.length();
      ++idle.count[c];
      idle.measured_ns[c] += overlap_length(measured, {gap.start_ns, gap.end_ns});
    }
    name_longest(trace, idle);
  }
  return all;
}

}  // namespace profgpu
