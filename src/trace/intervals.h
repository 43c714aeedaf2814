// Operations on sorted, disjoint, non-empty half-open intervals. All are linear in their inputs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "trace/trace.h"

namespace profgpu {

using Intervals = std::vector<Interval>;

/// The smallest interval that holds both.
constexpr Interval hull(Interval a, Interval b) { return {std::min(a.start, b.start), std::max(a.end, b.end)}; }
/// Length that two have in common; at least 0.
constexpr int64_t overlap_length(Interval a, Interval b) {
  return std::max<int64_t>(0, std::min(a.end, b.end) - std::max(a.start, b.start));
}

/// Adds an interval that starts no earlier than the last one; touching intervals become one and empty ones go.
void append(Intervals& all, Interval next);
/// Sorts and merges; touching intervals become one and empty ones go.
Intervals merged(Intervals intervals);
Intervals unite(const Intervals& a, const Intervals& b);
Intervals intersect(const Intervals& a, const Intervals& b);
Intervals subtract(const Intervals& a, const Intervals& b);
/// The part of `a` within `window`; logarithmic in a's size plus the size of the result.
Intervals clipped(const Intervals& a, Interval window);
int64_t total_length(const Intervals& a);
/// Length of the part of `a` within `window`, without building it.
int64_t overlap_length(const Intervals& a, Interval window);
/// Whether one of them holds the instant; logarithmic.
bool contains(const Intervals& a, int64_t time);
/// Index of the first interval that ends after `time`; a.size() if none does.
size_t first_ending_after(const Intervals& a, int64_t time);

}  // namespace profgpu
