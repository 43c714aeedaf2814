#include "trace/trace_builder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/hand_trace.h"
#include "tests/support/noise.h"
#include "trace/intervals.h"

namespace profgpu {
namespace {

HostId row_of(const Trace& trace, std::string_view name) {
  for (size_t i = 0; i < trace.host.size(); ++i)
    if (trace.name(HostId(i)) == name) return HostId(i);
  return {};
}

std::string_view parent_of(const Trace& trace, std::string_view name) {
  const HostId parent = trace.host.parent[row_of(trace, name).value];
  return parent.valid() ? trace.name(parent) : "none";
}

TEST(TraceBuilder, ParentIsTheInnermostThatContainsAllOfIt) {
  HandTrace hand;
  hand.range("outer", 0, 100).op("op", 10, 50).call("inner", 20, 30).call("later", 60, 70);
  const Trace trace = hand.build();
  EXPECT_EQ(parent_of(trace, "outer"), "none");
  EXPECT_EQ(parent_of(trace, "op"), "outer");
  EXPECT_EQ(parent_of(trace, "inner"), "op");
  EXPECT_EQ(parent_of(trace, "later"), "outer");
}

// Ranges of two clocks overlap at their edges: a step that begins within a call leaves the call its children.
TEST(TraceBuilder, ARangeThatOverlapsTheEndOfAnotherDoesNotTakeItsChildren) {
  HandTrace hand;
  hand.call("runtime", 10, 20).range("step", 12, 100).call("driver", 14, 18).call("next", 30, 40).op("last", 110, 120);
  const Trace trace = hand.build();
  EXPECT_EQ(parent_of(trace, "step"), "none");
  EXPECT_EQ(parent_of(trace, "driver"), "runtime");
  EXPECT_EQ(parent_of(trace, "next"), "step");
  EXPECT_EQ(parent_of(trace, "last"), "none");
}

TEST(TraceBuilder, ARecordingIsCutWhereAnotherWindowStands) {
  const auto recording = [] {
    HandTrace hand;
    hand.range("all", 0, 100).range("first", 1, 20).range("across", 30, 70).range("within", 50, 50).op("last", 60, 90);
    Trace trace = hand.build();
    trace.recorded = true;
    return trace;
  };
  for (const int64_t end : {50, 55}) {   // without length too
    HandTrace hand;
    hand.op("other", 50, end);
    std::vector<Trace> windows;
    windows.push_back(recording());
    windows.push_back(hand.build());
    const Trace trace = joined_windows(std::move(windows));
    std::vector<std::string_view> names;
    for (size_t i = 0; i < trace.host.size(); ++i) names.push_back(trace.name(HostId(i)));
    EXPECT_EQ(names, (std::vector<std::string_view>{"all", "first", "across", "other", "last"}));
    EXPECT_EQ(trace.host.end_ns(row_of(trace, "all")), 50'000);
    EXPECT_EQ(trace.host.end_ns(row_of(trace, "across")), 50'000);
    EXPECT_EQ(parent_of(trace, "across"), "all");
    EXPECT_EQ(parent_of(trace, "other"), "none");
    EXPECT_EQ(parent_of(trace, "last"), "none");
    EXPECT_TRUE(trace.recorded);
  }
}

// Whatever overlaps what, rows are in order, each lies in its parent, and none of the recording begins where others
// stand.
TEST(TraceBuilder, RandomRecordingsAroundRandomWindows) {
  sim::Noise noise;
  const auto random = [&](int64_t from, int64_t to, int rows, std::string_view name) {
    HandTrace hand;
    for (int i = 0; i < rows; ++i) {
      const int64_t start = from + noise.below(to - from + 1);
      const auto end = [&] { return start + noise.below(to - start + 1); };
      const std::string_view thread = noise.below(2) == 0 ? "main" : "other";
      switch (noise.below(4)) {
        case 0: hand.range(name, start, end(), thread); break;
        case 1: hand.range("ProfilerStep#" + std::to_string(i), start, end(), thread); break;
        case 2: hand.kernel(name, start, start, start, end(), thread, noise.below(3)); break;
        default: hand.op(name, start, end(), thread); break;
      }
    }
    return hand.build();
  };
  for (uint64_t seed = 0; seed < 300; ++seed) {
    noise.reseed(seed, 0, 0, 0);
    std::vector<Trace> windows;
    windows.push_back(random(0, 1000, 40, "recorded"));
    windows[0].recorded = true;
    Intervals others;
    for (int64_t at = noise.below(200); at < 1200; at += 1 + noise.below(500)) {
      const int64_t end = at + noise.below(300);
      windows.push_back(random(at, end, 1 + static_cast<int>(noise.below(10)), "other"));
      others.push_back(windows.back().windows[0]);
      at = end;
    }
    const size_t alone = windows.size();
    const Trace t = joined_windows(std::move(windows));
    ASSERT_GE(t.windows.size(), alone - 1);
    for (size_t w = 1; w < t.windows.size(); ++w) ASSERT_LE(t.windows[w - 1].end, t.windows[w].start) << seed;
    uint32_t rows = 0;
    for (const Thread& thread : t.threads) {
      ASSERT_EQ(thread.begin.value, rows);
      rows = thread.end.value;
      for (uint32_t i = thread.begin.value; i < rows; ++i) {
        ASSERT_EQ(t.threads[t.host.thread[i].value].id, thread.id);
        ASSERT_GE(t.host.duration_ns[i], 0);
        ASSERT_TRUE(i == thread.begin.value || t.host.start_ns[i - 1] <= t.host.start_ns[i]) << seed;
        if (const HostId parent = t.host.parent[i]; parent.valid()) {
          ASSERT_LT(parent.value, i);
          ASSERT_LE(t.host.start_ns[parent.value], t.host.start_ns[i]);
          ASSERT_GE(t.host.end_ns(parent), t.host.end_ns(HostId(i))) << seed;
        }
        const bool within = std::any_of(others.begin(), others.end(), [&](const Interval& o) {
          return o.start <= t.host.start_ns[i] && t.host.start_ns[i] < o.end;
        });
        ASSERT_FALSE(within && t.name(HostId(i)) == "recorded") << seed;
      }
    }
    ASSERT_EQ(rows, t.host.size());
    ASSERT_TRUE(std::is_sorted(t.activity.start_ns.begin(), t.activity.start_ns.end())) << seed;
    for (size_t i = 0; i < t.launching.size(); ++i)
      for (uint32_t a = t.launched_first[i]; a < t.launched_first[i + 1]; ++a)
        ASSERT_EQ(t.activity.launch[t.launched[a].value], t.launching[i]);
  }
}

TEST(TraceBuilder, ManyOverlappingRangesTakeNoLongTime) {
  HandTrace hand;
  for (int i = 0; i < 100'000; ++i) hand.op("overlapping", i, 200'000 + i);
  const Trace trace = hand.build();
  for (size_t i = 0; i < trace.host.size(); ++i) ASSERT_FALSE(trace.host.parent[i].valid());
}

}  // namespace
}  // namespace profgpu
