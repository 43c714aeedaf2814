#include "analyse/rank/device_steps.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "analyse/rank/steps.h"
#include "trace/intervals.h"

namespace profgpu {
namespace {

// What all streams saw of one range.
struct Seen {
  StringId name;
  Interval time;           // on the device
  int64_t begin = 0;       // of the step
  size_t window = 0;       // of the profiler
  std::vector<uint32_t> lanes;
};

// By how much a range and its first activity may differ, because times are rounded.
constexpr int64_t kRounded_ns = 10;

// When the first activity of each range was launched; the range's start where the launch is not known.
std::vector<int64_t> launches_of(const Trace& trace, const std::vector<const DeviceRange*>& ranges) {
  std::vector<int64_t> launched;
  for (const DeviceRange* range : ranges) launched.push_back(range->start_ns);
  const auto start = [](const DeviceRange* range) { return range->start_ns; };
  for (uint32_t i = 0; i < trace.activity.size(); ++i) {
    const int64_t time = trace.activity.start_ns[i];
    auto range = std::ranges::lower_bound(ranges, time - kRounded_ns, {}, start);
    for (; range != ranges.end() && (*range)->start_ns <= time + kRounded_ns; ++range) {
      int64_t& first = launched[static_cast<size_t>(range - ranges.begin())];
      first = std::min(first, trace.launched_ns(ActivityId(i)));
    }
  }
  return launched;
}

// Some recorders end a range with its first activity.
bool are_cut_short(const Trace& trace, const std::vector<const DeviceRange*>& ranges) {
  constexpr int64_t kLeastCovered_pct = 10;
  Intervals times;
  for (const DeviceRange* range : ranges) times.push_back({range->start_ns, range->start_ns + range->duration_ns});
  times = merged(std::move(times));
  int64_t covered = 0, all = 0;
  for (uint32_t i = 0; i < trace.activity.size() && !times.empty(); ++i) {
    const Interval time = trace.activity.interval(ActivityId(i));
    if (time.start < times.front().start) continue;
    all += time.length() / 100;
    if (contains(times, time.start)) covered += time.length();
  }
  return covered < kLeastCovered_pct * all;
}

// The last call in a window that launches anything; INT64_MIN: none is known.
std::vector<int64_t> last_launches(const Trace& trace) {
  std::vector<int64_t> last(std::max<size_t>(trace.windows.size(), 1), INT64_MIN);
  for (const HostId call : trace.launching) {
    int64_t& of_window = last[profiler_window(trace, trace.host.start_ns[call.value])];
    of_window = std::max(of_window, trace.host.end_ns(call));
  }
  return last;
}

// Ranges of several streams are one if they have one number; without numbers, if they overlap and the stream has seen
// none of it yet.
class SeenRanges {
 public:
  explicit SeenRanges(const Trace& trace) : trace_(trace) {}

  void add(const DeviceRange& range, int64_t launched, bool once) {
    const Interval time{range.start_ns, range.start_ns + range.duration_ns};
    const size_t window = profiler_window(trace_, time.start);
    const auto key = std::tuple(range.name.value, range.id, window);
    const auto [last, added] = last_of_.try_emplace(key, all_.size());
    if (!added) {
      Seen& seen = all_[last->second];
      const bool same = range.id != 0 || once ||
                        (time.start < seen.time.end && std::ranges::count(seen.lanes, range.lane) == 0);
      if (same) {
        seen.time.end = std::max(seen.time.end, time.end), seen.begin = std::min(seen.begin, launched);
        seen.lanes.push_back(range.lane);
        return;
      }
      last->second = all_.size();
    }
    all_.push_back({range.name, time, launched, window, {range.lane}});
  }

  // A range within another is a part of it.
  std::vector<Seen> outermost() {
    std::ranges::stable_sort(all_, [](const Seen& a, const Seen& b) {
      return std::pair(a.time.start, -a.time.end) < std::pair(b.time.start, -b.time.end);
    });
    std::vector<Seen> kept;
    int64_t end = INT64_MIN;
    for (Seen& seen : all_) {
      if (seen.time.end <= end) continue;
      end = seen.time.end;
      kept.push_back(std::move(seen));
    }
    std::ranges::stable_sort(kept, {}, &Seen::begin);
    return kept;
  }

 private:
  const Trace& trace_;
  std::vector<Seen> all_;
  std::map<std::tuple<uint32_t, uint32_t, size_t>, size_t> last_of_;   // by name, number and window
};

}  // namespace

std::vector<DeviceStep> device_steps(const Trace& trace, const std::vector<bool>& named, DeviceRanges follow) {
  std::vector<const DeviceRange*> ranges;
  for (const DeviceRange& range : trace.device_ranges)
    if (named[range.name.value] && range.duration_ns > 0) ranges.push_back(&range);
  if (ranges.empty()) return {};
  const bool numbered = follow == DeviceRanges::kWithoutBreak;
  const bool without_break = numbered || are_cut_short(trace, ranges);
  const std::vector<int64_t> launched = launches_of(trace, ranges), last = last_launches(trace);
  SeenRanges all(trace);
  for (size_t i = 0; i < ranges.size(); ++i) all.add(*ranges[i], launched[i], numbered);
  const std::vector<Seen> seen = all.outermost();
  std::vector<DeviceStep> steps;
  for (size_t i = 0; i < seen.size(); ++i) {
    const Seen& s = seen[i];
    int64_t end = s.time.end;
    if (i + 1 < seen.size() && seen[i + 1].window == s.window)
      end = without_break ? seen[i + 1].begin : std::min(end, seen[i + 1].begin);
    else if (without_break && s.begin < s.time.start && last[s.window] > s.begin)   // the host is ahead
      end = last[s.window];
    else if (without_break && s.window < trace.windows.size())
      end = std::max(end, trace.windows[s.window].end);
    if (end > s.begin) steps.push_back({s.name, {s.begin, end}});
  }
  return steps;
}

}  // namespace profgpu
