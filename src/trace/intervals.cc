#include "trace/intervals.h"

namespace profgpu {

void append(Intervals& all, Interval next) {
  if (next.end <= next.start) return;
  if (!all.empty() && next.start <= all.back().end) all.back().end = std::max(all.back().end, next.end);
  else all.push_back(next);
}

Intervals merged(Intervals intervals) {
  if (!std::is_sorted(intervals.begin(), intervals.end())) std::sort(intervals.begin(), intervals.end());
  Intervals out;
  for (const Interval& i : intervals) append(out, i);
  return out;
}

Intervals unite(const Intervals& a, const Intervals& b) {
  Intervals out;
  out.reserve(a.size() + b.size());
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    const bool take_a = j == b.size() || (i < a.size() && a[i].start <= b[j].start);
    append(out, take_a ? a[i++] : b[j++]);
  }
  return out;
}

Intervals intersect(const Intervals& a, const Intervals& b) {
  Intervals out;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Interval both{std::max(a[i].start, b[j].start), std::min(a[i].end, b[j].end)};
    if (both.start < both.end) out.push_back(both);
    ++(a[i].end < b[j].end ? i : j);
  }
  return out;
}

Intervals subtract(const Intervals& a, const Intervals& b) {
  Intervals out;
  size_t j = 0;
  for (const Interval& part : a) {
    int64_t at = part.start;
    while (j < b.size() && b[j].end <= at) ++j;
    for (size_t k = j; k < b.size() && b[k].start < part.end; ++k) {
      if (b[k].start > at) out.push_back({at, b[k].start});
      at = std::max(at, b[k].end);
    }
    if (at < part.end) out.push_back({at, part.end});
  }
  return out;
}

bool contains(const Intervals& a, int64_t time) {
  const size_t i = first_ending_after(a, time);
  return i < a.size() && a[i].start <= time;
}

size_t first_ending_after(const Intervals& a, int64_t time) {
  const auto it = std::partition_point(a.begin(), a.end(), [&](const Interval& i) { return i.end <= time; });
  return static_cast<size_t>(it - a.begin());
}

Intervals clipped(const Intervals& a, Interval window) {
  Intervals out;
  for (size_t i = first_ending_after(a, window.start); i < a.size() && a[i].start < window.end; ++i) {
    const Interval part{std::max(a[i].start, window.start), std::min(a[i].end, window.end)};
    if (part.start < part.end) out.push_back(part);
  }
  return out;
}

int64_t total_length(const Intervals& a) {
  int64_t sum = 0;
  for (const Interval& i : a) sum += i.length();
  return sum;
}

int64_t overlap_length(const Intervals& a, Interval window) {
  int64_t sum = 0;
  for (size_t i = first_ending_after(a, window.start); i < a.size() && a[i].start < window.end; ++i)
    sum += overlap_length(a[i], window);
  return sum;
}

}  // namespace profgpu
