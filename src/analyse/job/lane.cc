#include "analyse/job/lane.h"

#include <algorithm>
#include <cmath>

#include "analyse/rank/collectives.h"
#include "analyse/rank/idle.h"
#include "analyse/rank/names.h"
#include "analyse/rank/phases.h"
#include "analyse/rank/steps.h"
#include "base/saturated.h"

namespace profgpu {
namespace {

// Work that starts this soon after an end waited for it: an event between streams takes some microseconds.
constexpr int64_t kFollowsNs = 20'000;
// How late a host may return from waiting for a collective; and how late if the device has been idle since.
constexpr int64_t kReturnsNs = 50'000, kReturnsLateNs = 1'000'000;
// A launch takes under 10 µs; a longer one waits for space in the device's queue.
constexpr int64_t kLongLaunchNs = 50'000;
constexpr int kTries = 16;   // ends before an action that may explain it
constexpr int64_t kNoLaunch = INT64_MIN;

using What = LanePoint::What;

/// A point of the lane to be; times are on the trace's clock.
struct Action {
  int64_t time_ns = 0;
  int64_t launch_ns = kNoLaunch;   ///< of the call or kernel; for a step's bounds their own time
  What what = What::kRestart;
  uint32_t of = 0;
  [[nodiscard]] auto order() const { return std::tie(time_ns, what, of); }
};

/// A wait for a collective.
struct Period {
  int64_t start_ns = 0, end_ns = 0;
  uint32_t call = 0;
};

/// One call, on the trace's clock.
struct LaneCall {
  uint32_t call = 0;
  Interval time;
  int64_t launch_ns = kNoLaunch;
  int64_t ready_ns = 0;   ///< arrival of the rank
};

Intervals long_launches(const Trace& trace, const Names& names, const std::vector<bool>& launches) {
  Intervals calls;
  for (const HostId h : trace.launching)
    if (launches[trace.host.thread[h.value].value] && names.call[trace.host.name[h.value].value] == CallKind::kLaunch &&
        trace.host.duration_ns[h.value] > kLongLaunchNs)
      calls.push_back(trace.host.interval(h));
  return calls;
}

// Waits of launching threads for the device, or for space in its queue.
Intervals host_waits(const Facts& facts) {
  const Trace& trace = facts.trace();
  std::vector<bool> launches(trace.threads.size());
  for (const HostId h : trace.launching) launches[trace.host.thread[h.value].value] = true;
  Intervals waits = long_launches(trace, facts.get<Names>(), launches);
  const Waits& known = facts.get<Waits>();
  for (size_t t = 0; t < known.device_waits.size(); ++t)
    if (launches[t]) waits.insert(waits.end(), known.device_waits[t].begin(), known.device_waits[t].end());
  return merged(std::move(waits));
}

/// The calls of one device and their arrivals: the kernel's start, unless the previous call on its stream delayed it.
/// Then the arrival is its launch, or the end of the compute launched before it.
class Calls {
 public:
  Calls(const Facts& facts, const DeviceTime& device) : trace_(facts.trace()) {
    find_compute(facts.get<Devices>(), device);
    const std::vector<CollectiveCall>& calls = facts.get<CollectiveCalls>().calls;
    for (uint32_t i = 0; i < calls.size(); ++i) {
      const ActivityId a = calls[i].activity;
      if (!a.valid() || trace_.device_of(a) != device.id) continue;
      const HostId launch = trace_.activity.launch[a.value];
      const int64_t launch_ns = launch.valid() ? trace_.host.start_ns[launch.value] : kNoLaunch;
      all.push_back({i, trace_.activity.interval(a), launch_ns, 0});
    }
    const auto queue = [&](const LaneCall& h) { return calls[h.call].queue; };
    std::ranges::sort(all, {}, [&](const LaneCall& h) { return std::tuple(queue(h), h.time, h.call); });
    for (size_t i = 0; i < all.size(); ++i) {
      const bool follows = i > 0 && calls[all[i - 1].call].queue == calls[all[i].call].queue;
      all[i].ready_ns = ready(all[i], follows ? &all[i - 1] : nullptr);
    }
    std::ranges::sort(all, {}, [](const LaneCall& h) { return std::pair(h.time.end, h.call); });
  }
  std::vector<LaneCall> all;   ///< by end

 private:
  // Launches and ends of the queue with most compute.
  void find_compute(const Devices& devices, const DeviceTime& device) {
    std::vector<int64_t> total(trace_.queues.size());
    const auto computes = [&](uint32_t i) { return devices.kind[i] == WorkKind::kCompute; };
    for (uint32_t i = device.begin.value; i < device.end.value; ++i)
      if (computes(i)) total[trace_.activity.queue[i]] += trace_.activity.duration_ns[i];
    const auto main = std::ranges::max_element(total) - total.begin();
    for (uint32_t i = device.begin.value; i < device.end.value; ++i) {
      const HostId launch = trace_.activity.launch[i];
      if (computes(i) && trace_.activity.queue[i] == main && launch.valid())
        compute_.emplace_back(trace_.host.start_ns[launch.value], trace_.activity.end_ns(ActivityId(i)));
    }
    std::ranges::sort(compute_);
  }

  [[nodiscard]] int64_t ready(const LaneCall& c, const LaneCall* before) const {
    const bool held = before != nullptr && before->time.end <= c.time.start &&
                      c.time.start - before->time.end <= kFollowsNs;
    if (!held) return c.time.start;
    if (c.launch_ns == kNoLaunch) return before->ready_ns;   // a lower bound
    int64_t at = c.launch_ns;
    const auto compute = std::ranges::lower_bound(compute_, c.launch_ns, {}, &std::pair<int64_t, int64_t>::first);
    if (compute != compute_.begin() && std::prev(compute)->second <= c.time.start)
      at = std::max(at, std::prev(compute)->second);
    return std::min(at, c.time.start);
  }

  const Trace& trace_;
  std::vector<std::pair<int64_t, int64_t>> compute_;
};

/// Compute without a pause, on one device.
struct ComputeRun {
  int64_t start_ns = 0, end_ns = 0;
  int64_t launch_ns = kNoLaunch;   ///< of its first activity
};

struct LaneTile {
  Interval time;
  LaneTime kind = LaneTime::kCompute;
};

std::vector<ComputeRun> compute_runs(const Facts& facts, const DeviceTime& device) {
  const Trace& trace = facts.trace();
  const std::vector<WorkKind>& kind = facts.get<Devices>().kind;
  std::vector<ComputeRun> runs;
  runs.reserve(device.compute.size());
  uint32_t row = device.begin.value;
  for (const Interval& time : device.compute) {
    const auto before = [&](uint32_t r) {
      return kind[r] != WorkKind::kCompute || trace.activity.start_ns[r] < time.start;
    };
    while (row < device.end.value && before(row)) ++row;
    ComputeRun run{time.start, time.end};
    if (row < device.end.value && trace.activity.launch[row].valid())
      run.launch_ns = trace.host.start_ns[trace.activity.launch[row].value];
    runs.push_back(run);
  }
  return runs;
}

class Tiler {
 public:
  Tiler(const Facts& facts, const DeviceTime& device, const DeviceIdle& idle)
      : loading_(facts.get<Phases>().data_loading), device_(device), idle_(idle) {}

  void compute(const ComputeRun& run, const Interval& window) {
    add({std::max(run.start_ns, window.start), std::min(run.end_ns, window.end)}, LaneTime::kCompute);
  }

  // Time without compute; `launch_ns` is the launch of the compute that ends it.
  void pause(Interval time, int64_t launch_ns) {
    while (gap_ < idle_.gaps.size() && idle_.gaps[gap_].end_ns <= time.start) ++gap_;
    int64_t at = time.start;
    for (size_t g = gap_; g < idle_.gaps.size() && idle_.gaps[g].start_ns < time.end; ++g) {
      const Gap& gap = idle_.gaps[g];
      busy({at, std::min(gap.start_ns, time.end)}, launch_ns);
      at = std::max(at, gap.start_ns);
      add({at, std::min(gap.end_ns, time.end)}, lane_time(gap.cause));
      at = std::max(at, gap.end_ns);
    }
    busy({at, time.end}, launch_ns);
  }

  std::vector<LaneTile> tiles;

 private:
  void add(Interval time, LaneTime kind) {
    if (time.start < time.end) tiles.push_back({time, kind});
  }

  void busy(Interval time, int64_t launch_ns) {
    if (time.start >= time.end) return;
    int64_t at = time.start;
    for (const Interval& copy : clipped(device_.memory, time)) {
      uncaused({at, copy.start}, launch_ns);
      add(copy, LaneTime::kCopy);
      at = copy.end;
    }
    uncaused({at, time.end}, launch_ns);
  }

  void uncaused(Interval time, int64_t launch_ns) {
    if (time.start >= time.end) return;
    const bool late = launch_ns > time.start;
    int64_t at = time.start;
    const auto rest = [&](int64_t end) {
      add({at, end}, lane_time(late ? IdleCause::kHostBound : IdleCause::kDependency));
    };
    if (late) {
      for (const Interval& loading : clipped(loading_, time)) {
        rest(loading.start);
        add(loading, lane_time(IdleCause::kDataLoading));
        at = loading.end;
      }
    }
    rest(time.end);
  }

  const Intervals& loading_;
  const DeviceTime& device_;
  const DeviceIdle& idle_;
  size_t gap_ = 0;
};

// Tiles from the first window's start to the last one's end, in time order and without holes within windows. Time that
// is neither compute, copy nor a gap of Idle (a collective that no compute waits for, or time before the first activity
// and after the last) has the cause of idle time: data loading, a late launch or a dependency.
std::vector<LaneTile> lane_tiles(const Facts& facts, const DeviceTime& device, const std::vector<ComputeRun>& runs) {
  const auto place = static_cast<size_t>(&device - facts.get<Devices>().devices.data());
  Tiler tiler(facts, device, facts.get<Idle>().devices[place]);
  size_t run = 0;
  for (const Interval& window : facts.trace().windows) {
    int64_t at = window.start;
    for (; run < runs.size() && runs[run].start_ns < window.end; ++run) {
      tiler.pause({at, runs[run].start_ns}, runs[run].launch_ns);
      tiler.compute(runs[run], window);
      at = std::max(at, std::min(runs[run].end_ns, window.end));
    }
    tiler.pause({at, window.end}, INT64_MAX);   // nothing was launched later
  }
  return std::move(tiler.tiles);
}

class Builder {
 public:
  Builder(const Facts& facts, const DeviceTime& device)
      : trace_(facts.trace()), runs_(compute_runs(facts, device)), tiles_(lane_tiles(facts, device, runs_)),
        calls_(facts, device), busy_(device.busy), waits_(host_waits(facts)) {
    for (const LaneCall& c : calls_.all) actions_.push_back({c.ready_ns, c.launch_ns, What::kArrive, c.call});
    const std::vector<Step>& steps = facts.get<Steps>().steps;
    for (uint32_t i = 0; i < steps.size(); ++i) {
      const Interval time = steps[i].interval();
      actions_.push_back({time.start, time.start, What::kStepBegin, i});
      actions_.push_back({time.end, time.end, What::kStepEnd, i});
      const Intervals waiting = clipped(waits_, time);
      const auto within = [&](const Intervals& ranges) {
        return total_length(subtract(clipped(ranges, time), waiting));
      };
      const Phases& phases = facts.get<Phases>();
      out_.steps.push_back(
          {time.length() - total_length(waiting), within(phases.data_loading), within(phases.checkpoint)});
    }
    std::ranges::sort(actions_, {}, &Action::order);
  }

  Lane build() {
    for (size_t w = 0; w < trace_.windows.size(); ++w) {
      const int64_t limit = w + 1 < trace_.windows.size() ? trace_.windows[w + 1].start : INT64_MAX;
      window(trace_.windows[w], limit);
    }
    return std::move(out_);
  }

 private:
  void window(const Interval& w, int64_t limit) {
    at_ = w.start;
    point(What::kRestart, 0);
    for (; run_ < runs_.size() && runs_[run_].start_ns < w.end; ++run_) {
      pause({at_, runs_[run_].start_ns}, runs_[run_].launch_ns);
      while (action_ < actions_.size() && actions_[action_].time_ns < runs_[run_].end_ns) act(actions_[action_++]);
      take(runs_[run_].end_ns);
    }
    pause({at_, w.end}, kNoLaunch);
    for (; action_ < actions_.size() && actions_[action_].time_ns < limit; ++action_) act(actions_[action_]);
  }

  // Time without compute: waits for collectives, and the rank's own time.
  void pause(const Interval& gap, int64_t launch_ns) {
    const size_t begin = action_;
    while (action_ < actions_.size() && actions_[action_].time_ns <= gap.end) ++action_;
    periods_.clear();
    for (size_t a = begin; a < action_; ++a) add_period(gap, actions_[a]);
    add_period(gap, {gap.end, launch_ns, What::kRestart, 0});
    size_t a = begin;
    for (const Period& p : periods_) {
      for (; a < action_ && actions_[a].time_ns <= p.start_ns; ++a) act(actions_[a]);
      take(p.start_ns);
      for (; a < action_ && actions_[a].time_ns < p.end_ns; ++a) point(actions_[a].what, actions_[a].of);
      skip(p.end_ns);
      point(What::kWait, p.call);
    }
    for (; a < action_; ++a) act(actions_[a]);
    take(gap.end);
  }

  // Adds the wait for the collective within the gap that delayed the action: the last that ended before it, if any did.
  void add_period(const Interval& gap, const Action& action) {
    auto c = std::ranges::upper_bound(calls_.all, action.time_ns, {}, [](const LaneCall& h) { return h.time.end; });
    const int64_t done = periods_.empty() ? gap.start : periods_.back().end_ns;
    for (int tries = 0; tries < kTries && c != calls_.all.begin() && std::prev(c)->time.end > done; ++tries) {
      --c;
      if (!held_up(action, c->time.end) || (action.what == What::kArrive && action.of == c->call)) continue;
      periods_.push_back({std::max(done, c->ready_ns), c->time.end, c->call});
      return;
    }
  }

  [[nodiscard]] bool held_up(const Action& action, int64_t end) const {
    const bool step = action.what == What::kStepBegin || action.what == What::kStepEnd;
    const bool launched = action.launch_ns == kNoLaunch || action.launch_ns <= end;
    if (!step && launched && action.time_ns - end <= kFollowsNs) return true;
    if (action.launch_ns == kNoLaunch) return false;
    const size_t w = first_ending_after(waits_, end - 1);   // it ends at `end` or after
    return w < waits_.size() && waits_[w].start < end && waits_[w].end <= action.launch_ns && was_for(waits_[w], end);
  }

  // Whether the host waited for the work that ended at `end`.
  [[nodiscard]] bool was_for(const Interval& wait, int64_t end) const {
    const bool idle_since = wait.end <= end + kReturnsLateNs && overlap_length(busy_, {end, wait.end}) == 0;
    return wait.end <= end + kReturnsNs || idle_since;
  }

  void act(const Action& action) {
    take(action.time_ns);
    point(action.what, action.of);
  }

  // Own time up to `to`.
  void take(int64_t to) {
    for (; tile_ < tiles_.size() && tiles_[tile_].time.start < to; ++tile_) {
      const LaneTile& t = tiles_[tile_];
      add(t.kind, std::min(to, t.time.end) - std::max(at_, t.time.start));
      if (t.time.end > to) break;
    }
    at_ = std::max(at_, to);
  }

  void skip(int64_t to) {
    while (tile_ < tiles_.size() && tiles_[tile_].time.end <= to) ++tile_;
    at_ = std::max(at_, to);
  }

  void add(LaneTime kind, int64_t ns) {
    if (ns <= 0) return;
    const auto begin = out_.parts.begin() + (out_.points.empty() ? 0 : out_.points.back().parts_end);
    const auto known = std::ranges::find(begin, out_.parts.end(), kind, &LanePart::kind);
    if (known == out_.parts.end()) out_.parts.push_back({ns, kind});
    else known->ns += ns;
  }

  void point(What what, uint32_t of) {
    out_.points.push_back({at_ + trace_.base_time_ns, of, static_cast<uint32_t>(out_.parts.size()), what});
  }

  const Trace& trace_;
  std::vector<ComputeRun> runs_;
  std::vector<LaneTile> tiles_;
  Calls calls_;
  const Intervals& busy_;
  Intervals waits_;
  std::vector<Action> actions_;
  std::vector<Period> periods_;
  Lane out_;
  int64_t at_ = 0;
  size_t run_ = 0, action_ = 0, tile_ = 0;
};

}  // namespace

Lane Lane::compute(const Facts& facts) {
  const Devices& devices = facts.get<Devices>();
  if (devices.busiest < 0) return {};
  return Builder(facts, devices.devices[static_cast<size_t>(devices.busiest)]).build();
}

std::vector<LaneSaving> Lane::savings(const Trace& trace, const Intervals& time, int64_t saved_ns) const {
  std::vector<LaneSaving> all;
  const auto whole = static_cast<double>(total_length(time));
  int64_t from = INT64_MIN;
  size_t at = 0;
  for (uint32_t p = 0; p < points.size() && whole > 0; ++p) {
    const int64_t to = saturated_sub(points[p].time_ns, trace.base_time_ns);
    int64_t ns = 0;
    for (; at < time.size() && time[at].start < to; ++at) {
      ns += overlap_length(time[at], {from, to});
      if (time[at].end > to) break;
    }
    from = to;
    if (ns > 0) all.push_back({p, std::llround(static_cast<double>(saved_ns) * static_cast<double>(ns) / whole)});
  }
  return all;
}

std::string_view lane_time_name(LaneTime kind) {
  switch (kind) {
    case LaneTime::kCompute: return "compute";
    case LaneTime::kCopy: return "copy";
    case LaneTime::kCommunication: return "communication";
    default: return idle_cause_name(static_cast<IdleCause>(static_cast<int>(kind) - static_cast<int>(LaneTime::kIdle)));
  }
}

}  // namespace profgpu
