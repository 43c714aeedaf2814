#include "analyse/rank/device_steps.h"

#include <algorithm>
#include <map>
#include <unordered_map>

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

size_t profiler_window(const Trace& trace, int64_t time) {
  const auto next = std::ranges::upper_bound(trace.windows, time, {}, &Interval::start);
  return static_cast<size_t>(std::max<ptrdiff_t>(next - trace.windows.begin() - 1, 0));
}

// When the activities that begin at these times were launched: the earliest of several.
std::unordered_map<int64_t, int64_t> launches_of(const Trace& trace, const std::vector<const DeviceRange*>& ranges) {
  std::unordered_map<int64_t, int64_t> launches;
  for (const DeviceRange* range : ranges) launches.emplace(range->start_ns, range->start_ns);
  for (uint32_t i = 0; i < trace.activity.size(); ++i) {
    const auto at = launches.find(trace.activity.start_ns[i]);
    if (at != launches.end()) at->second = std::min(at->second, trace.launched_ns(ActivityId(i)));
  }
  return launches;
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
  const bool without_break = follow == DeviceRanges::kWithoutBreak;
  const auto launches = launches_of(trace, ranges);
  SeenRanges all(trace);
  for (const DeviceRange* range : ranges) all.add(*range, launches.at(range->start_ns), without_break);
  const std::vector<Seen> seen = all.outermost();
  std::vector<DeviceStep> steps;
  for (size_t i = 0; i < seen.size(); ++i) {
    int64_t end = seen[i].time.end;
    if (i + 1 < seen.size() && seen[i + 1].window == seen[i].window)
      end = without_break ? seen[i + 1].begin : std::min(end, seen[i + 1].begin);
    if (end > seen[i].begin) steps.push_back({seen[i].name, {seen[i].begin, end}});
  }
  return steps;
}

}  // namespace profgpu
