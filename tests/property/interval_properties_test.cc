// Laws of sets that interval operations must keep, on random intervals.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "trace/intervals.h"

namespace profgpu {
namespace {

// Short numbers, so that intervals touch, nest and repeat.
Intervals some_intervals() {
  const auto starts = *rc::gen::container<std::vector<int>>(rc::gen::inRange(-40, 40));
  Intervals all;
  for (const int start : starts) all.push_back({start, start + *rc::gen::inRange(-2, 12)});
  return all;
}

bool is_clean(const Intervals& a) {
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].start >= a[i].end || (i > 0 && a[i - 1].end >= a[i].start)) return false;
  return true;
}

bool in_some(const Intervals& a, int64_t time) {
  for (const Interval& i : a)
    if (i.start <= time && time < i.end) return true;
  return false;
}

template <class Law>
void check(const char* name, Law&& law) {
  ASSERT_TRUE(rc::check(name, law));
}

TEST(IntervalProperties, MergedAreDisjointAndCoverTheSame) {
  check("merged", [] {
    const Intervals raw = some_intervals();
    const Intervals m = merged(raw);
    RC_ASSERT(is_clean(m));
    RC_ASSERT(merged(m) == m);
    for (int t = -45; t < 60; ++t) RC_ASSERT(in_some(raw, t) == in_some(m, t));
  });
}

TEST(IntervalProperties, OperationsAreThoseOfSets) {
  check("sets", [] {
    const Intervals a = merged(some_intervals()), b = merged(some_intervals());
    const Intervals u = unite(a, b), i = intersect(a, b), d = subtract(a, b);
    RC_ASSERT((is_clean(u) && is_clean(i) && is_clean(d)));
    for (int t = -45; t < 60; ++t) {
      RC_ASSERT(contains(a, t) == in_some(a, t));
      RC_ASSERT(in_some(u, t) == (in_some(a, t) || in_some(b, t)));
      RC_ASSERT(in_some(i, t) == (in_some(a, t) && in_some(b, t)));
      RC_ASSERT(in_some(d, t) == (in_some(a, t) && !in_some(b, t)));
    }
  });
}

TEST(IntervalProperties, LengthsOfUnionAndIntersectionAddUp) {
  check("lengths", [] {
    const Intervals a = merged(some_intervals()), b = merged(some_intervals());
    RC_ASSERT(total_length(unite(a, b)) == total_length(a) + total_length(b) - total_length(intersect(a, b)));
    RC_ASSERT(total_length(subtract(a, b)) == total_length(a) - total_length(intersect(a, b)));
    RC_ASSERT(unite(a, b) == unite(b, a));
    RC_ASSERT(intersect(a, b) == intersect(b, a));
  });
}

TEST(IntervalProperties, ClippingIsIntersectionWithTheWindow) {
  check("clipping", [] {
    const Intervals a = merged(some_intervals());
    const int start = *rc::gen::inRange(-50, 50);
    const Interval window{start, start + *rc::gen::inRange(0, 60)};
    const Intervals c = clipped(a, window);
    RC_ASSERT(c == intersect(a, merged({window})));
    RC_ASSERT(overlap_length(a, window) == total_length(c));
    const size_t first = first_ending_after(a, window.start);
    // In brackets: RC_ASSERT takes a bare || apart and looks at both sides.
    RC_ASSERT((first == a.size() || a[first].end > window.start));
    RC_ASSERT((first == 0 || a[first - 1].end <= window.start));
  });
}

TEST(IntervalProperties, ShiftingChangesOnlyPlaces) {
  check("shift", [] {
    const int64_t by = *rc::gen::arbitrary<int32_t>();
    Intervals raw = some_intervals();
    const Intervals before = merged(raw);
    for (Interval& i : raw) i.start += by, i.end += by;
    const Intervals after = merged(raw);
    RC_ASSERT(after.size() == before.size());
    for (size_t i = 0; i < after.size(); ++i)
      RC_ASSERT(after[i] == (Interval{before[i].start + by, before[i].end + by}));
  });
}

}  // namespace
}  // namespace profgpu
