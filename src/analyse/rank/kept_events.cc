#include "analyse/rank/kept_events.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <span>

#include "analyse/rank/steps.h"
#include "base/statistics.h"

namespace profgpu {
namespace {

struct Count {
  int64_t activities = 0, host = 0;
  [[nodiscard]] int64_t all() const { return activities + host; }
};

// Of rows [begin, end), which are sorted by start, those that start within the window.
std::pair<size_t, size_t> starting_within(const std::vector<int64_t>& start_ns, size_t begin, size_t end,
                                          Interval window) {
  const auto from = start_ns.begin() + static_cast<ptrdiff_t>(begin);
  const auto to = start_ns.begin() + static_cast<ptrdiff_t>(end);
  const auto at = [&](int64_t t) { return static_cast<size_t>(std::lower_bound(from, to, t) - start_ns.begin()); };
  return {at(window.start), at(window.end)};
}

Interval on_clock_of(const PlacedRank& rank, Interval window) {
  return {window.start - rank.shift_ns, window.end - rank.shift_ns};
}

Count events_within(const std::vector<PlacedRank>& ranks, Interval window) {
  Count count;
  for (const PlacedRank& rank : ranks) {
    const Trace& trace = rank.facts->trace();
    const Interval own = on_clock_of(rank, window);
    for (const Trace::DeviceRows& rows : trace.device_rows) {
      const auto [a, b] = starting_within(trace.activity.start_ns, rows.begin.value, rows.end.value, own);
      count.activities += static_cast<int64_t>(b - a);
    }
    for (const Thread& thread : trace.threads) {
      const auto [a, b] = starting_within(trace.host.start_ns, thread.begin.value, thread.end.value, own);
      count.host += static_cast<int64_t>(b - a);
    }
  }
  return count;
}

// Numbers of the first rank's measured steps, the most interesting first.
std::vector<int64_t> steps_by_interest(const PlacedRank& rank) {
  const std::vector<const Step*> measured = rank.facts->get<Steps>().measured();
  if (measured.empty()) return {};
  std::vector<const Step*> by_length = measured;
  std::ranges::stable_sort(by_length, {}, &Step::duration_ns);
  std::vector<int64_t> order = {by_length[(by_length.size() - 1) / 2]->index, by_length.back()->index};
  for (const Step* s : measured) order.push_back(s->index);
  return order;
}

// The longest part from the window's start whose activities fit.
Interval first_part(const std::vector<PlacedRank>& ranks, Interval window, int64_t activities) {
  int64_t fits = 0, too_long = window.length() + 1;
  while (too_long - fits > 1) {
    const int64_t length = fits + (too_long - fits) / 2;
    (events_within(ranks, {window.start, window.start + length}).activities <= activities ? fits : too_long) = length;
  }
  return {window.start, window.start + fits};
}

// The least duration that at most `most` of the window's host ranges have.
int64_t least_duration(const std::vector<PlacedRank>& ranks, Interval window, int64_t most) {
  std::vector<int64_t> durations;
  for (const PlacedRank& rank : ranks) {
    const HostTable& host = rank.facts->trace().host;
    for (const Thread& thread : rank.facts->trace().threads) {
      const auto [a, b] =
          starting_within(host.start_ns, thread.begin.value, thread.end.value, on_clock_of(rank, window));
      durations.insert(durations.end(), host.duration_ns.begin() + static_cast<ptrdiff_t>(a),
                       host.duration_ns.begin() + static_cast<ptrdiff_t>(b));
    }
  }
  if (static_cast<int64_t>(durations.size()) <= most) return 0;
  const auto nth = durations.begin() + std::max<int64_t>(most - 1, 0);
  std::nth_element(durations.begin(), nth, durations.end(), std::greater<>());
  return *nth + 1;
}

KeptEvents part_of_step(const std::vector<PlacedRank>& ranks, Interval step, int64_t budget) {
  const Interval part = first_part(ranks, step, budget * 3 / 4);
  const int64_t left = budget - events_within(ranks, part).activities;
  return {{part}, least_duration(ranks, part, left)};
}

// Windows of the steps by number, of all ranks together.
std::map<int64_t, Intervals> windows_by_step(const std::vector<PlacedRank>& ranks) {
  std::map<int64_t, Intervals> windows;
  for (const PlacedRank& rank : ranks)
    for (const Step& s : rank.facts->get<Steps>().steps)
      windows[s.index].push_back({s.start_ns + rank.shift_ns, s.interval().end + rank.shift_ns});
  for (auto& [index, intervals] : windows) intervals = merged(std::move(intervals));
  return windows;
}

KeptEvents fitting(const std::vector<PlacedRank>& ranks, Interval span, int64_t budget) {
  const std::map<int64_t, Intervals> steps = windows_by_step(ranks);
  const std::vector<int64_t> order = steps_by_interest(ranks.front());
  std::set<int64_t> seen;
  Intervals chosen;
  int64_t count = 0;
  for (const int64_t index : order) {
    if (!seen.insert(index).second) continue;
    const Intervals& windows = steps.at(index);
    const int64_t more = sum_of(windows, [&](const Interval& w) { return events_within(ranks, w).all(); });
    if (count + more <= budget) {
      count += more;
      chosen.insert(chosen.end(), windows.begin(), windows.end());
    } else if (chosen.empty() || index != order[1]) {   // the slowest step may be too large where others fit
      break;
    }
  }
  if (!chosen.empty()) return {merged(std::move(chosen)), 0};
  const bool typical = !order.empty() && !steps.at(order.front()).empty();
  return part_of_step(ranks, typical ? steps.at(order.front()).front() : span, budget);
}

}  // namespace

KeptEvents kept_events(const std::vector<PlacedRank>& ranks, Interval span, const StepChoice& choice, int64_t budget) {
  if (choice.all || ranks.empty()) return {{span}, 0};
  if (choice.any()) {
    Intervals chosen;
    for (const auto& [index, windows] : windows_by_step(ranks))
      for (const auto& [first, end] : choice.indices)
        if (first <= index && index < end) chosen.insert(chosen.end(), windows.begin(), windows.end());
    return {merged(std::move(chosen)), 0};
  }
  const int64_t all = sum_of(ranks, [](const PlacedRank& rank) {
    return static_cast<int64_t>(rank.facts->trace().host.size() + rank.facts->trace().activity.size());
  });
  return all <= budget ? KeptEvents{{span}, 0} : fitting(ranks, span, budget);
}

}  // namespace profgpu
