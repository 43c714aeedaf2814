#include "trace/trace_builder.h"

#include <gtest/gtest.h>

#include "tests/support/hand_trace.h"

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

TEST(TraceBuilder, ManyOverlappingRangesTakeNoLongTime) {
  HandTrace hand;
  for (int i = 0; i < 100'000; ++i) hand.op("overlapping", i, 200'000 + i);
  const Trace trace = hand.build();
  for (size_t i = 0; i < trace.host.size(); ++i) ASSERT_FALSE(trace.host.parent[i].valid());
}

}  // namespace
}  // namespace profgpu
