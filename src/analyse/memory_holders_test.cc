#include "analyse/memory_holders.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/trace_rows.h"

namespace profgpu {
namespace {

using test::TraceRows;

// Who allocated what is live at the peak: 4 bytes of `aten::a` twice, 16 of `aten::b`, and 100 that were there before.
Trace with_memory() {
  TraceRows rows;
  rows.python("train.py: main", 0, 1000).op("aten::a", 10, 100).op("aten::b", 200, 100);
  rows.allocation(20, 4, 104, 200).allocation(30, 4, 108, 200).allocation(210, 16, 124, 200);
  rows.allocation(220, -4, 120, 200).allocation(230, 4, 124, 300).allocation(400, -16, 108, 300);
  Trace trace = rows.finish();
  const uint64_t addresses[] = {1, 2, 3, 1, 4, 3};
  for (size_t i = 0; i < 6; ++i) trace.memory[i].address = addresses[i], trace.memory[i].thread = ThreadId(size_t{0});
  return trace;
}

TEST(MemoryHolders, AreThoseAtThePeak) {
  const Trace trace = with_memory();
  const Facts facts(trace, {});
  const auto memory = memory_over_time(facts, 1000);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->peak_ns, 1210);   // the first of equal peaks
  ASSERT_EQ(memory->held.size(), 3U);
  EXPECT_EQ(memory->held[0].op, "(before the trace)");
  EXPECT_EQ(memory->held[0].bytes, 100);
  EXPECT_EQ(memory->held[1].op, "aten::b");
  EXPECT_EQ(memory->held[1].bytes, 16);
  EXPECT_EQ(memory->held[1].stack, "train.py: main\naten::b");
  EXPECT_EQ(memory->held[2].op, "aten::a");
  EXPECT_EQ(memory->held[2].bytes, 8);
  EXPECT_EQ(memory->held[2].blocks, 2);
}

TEST(MemoryHolders, TheCourseKeepsThePeakHoweverLong) {
  TraceRows rows;
  rows.op("aten::a", 0, 100'000);
  for (int64_t i = 0; i < 30'000; ++i) rows.allocation(i, 1, i == 12'345 ? 1'000'000 : 1000 + i % 7, -1);
  const Trace trace = rows.finish();
  const Facts facts(trace, {});
  const auto memory = memory_over_time(facts, 0);
  ASSERT_TRUE(memory);
  EXPECT_LE(memory->time_ns.size(), 2010U);
  EXPECT_EQ(*std::max_element(memory->allocated.begin(), memory->allocated.end()), 1'000'000);
  EXPECT_TRUE(std::is_sorted(memory->time_ns.begin(), memory->time_ns.end()));
  EXPECT_TRUE(memory->reserved.empty());
}

TEST(MemoryHolders, NothingWithoutTotals) {
  TraceRows rows;
  rows.op("aten::a", 0, 100).allocation(20, 4, -1, -1);
  const Trace trace = rows.finish();
  const Facts facts(trace, {});
  EXPECT_FALSE(memory_over_time(facts, 0));
}

}  // namespace
}  // namespace profgpu
