#include "analyse/rank/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/support/trace_rows.h"

namespace profgpu {
namespace {

using test::TraceRows;

constexpr int64_t kMb = 1 << 20;

Memory memory_of(TraceRows& t) {
  const Trace trace = t.finish();
  const Facts facts(trace, {});
  return facts.get<Memory>();
}

TEST(Memory, PeaksAndFragmentationAtTheReservedPeak) {
  TraceRows t;
  t.allocation(10, 4 * kMb, 4 * kMb, 20 * kMb);
  t.allocation(20, 4 * kMb, 8 * kMb, 40 * kMb);
  t.allocation(30, 22 * kMb, 30 * kMb, 40 * kMb);     // the same reservation at its fullest
  t.allocation(40, -20 * kMb, 10 * kMb, 39 * kMb);
  t.allocation(50, 90 * kMb, 90 * kMb, 90 * kMb, -1, 0);   // the CPU's
  DeviceProperties p;
  p.memory_bytes = 100 * kMb;
  t.header().devices.push_back(p);
  const Memory m = memory_of(t);
  EXPECT_EQ(m.device, 0);
  EXPECT_EQ(m.peak_allocated_bytes, 30 * kMb);
  EXPECT_EQ(m.peak_reserved_bytes, 40 * kMb);
  EXPECT_EQ(m.capacity_bytes, 100 * kMb);
  EXPECT_EQ(m.fragmentation_pct, 25);
  EXPECT_EQ(m.growth_bytes_per_step, std::nullopt);   // no steps
  ASSERT_EQ(m.timeline.size(), 4u);
  EXPECT_EQ(m.timeline[2].allocated_bytes, 30 * kMb);
}

TEST(Memory, TheDeviceWithTheHighestPeakIsShown) {
  TraceRows t;
  t.allocation(10, kMb, kMb, kMb, 0).allocation(11, kMb, 3 * kMb, 3 * kMb, 1, 6);
  const Memory m = memory_of(t);
  EXPECT_EQ(m.device, 1);
  EXPECT_EQ(m.peak_reserved_bytes, 3 * kMb);
}

// Steps of 100 ns; the lowest level of step i is 10 MB and what leaked.
void add_step(TraceRows& t, int number, int64_t start, int64_t low) {
  t.annotation("ProfilerStep#" + std::to_string(number), start, 100);
  t.allocation(start + 10, 5 * kMb, low + 5 * kMb, 64 * kMb).allocation(start + 90, -5 * kMb, low, 64 * kMb);
}

TEST(Memory, GrowthIsTheMedianSlopeOfTheLowestLevels) {
  TraceRows t;
  const int64_t lows[] = {10, 12, 14, 46, 18, 20};   // one outlier moves nothing
  for (int i = 0; i < 6; ++i) add_step(t, i, 100 * i, lows[i] * kMb);
  EXPECT_EQ(memory_of(t).growth_bytes_per_step, 2.0 * kMb);
}

TEST(Memory, GrowthIsPerStepEvenWhereStepsWereNotRecorded) {
  TraceRows t;
  for (const int i : {0, 1, 10, 11}) add_step(t, i, 100 * i, (10 + 3 * i) * kMb);
  Trace trace = t.finish();
  trace.windows = {{0, 200}, {1000, 1200}};
  const Facts facts(trace, {});
  EXPECT_EQ(facts.get<Memory>().growth_bytes_per_step, 3.0 * kMb);
}

TEST(Memory, AStepWithoutEventsHasTheLevelBeforeIt) {
  TraceRows t;
  t.allocation(5, 7 * kMb, 7 * kMb, 8 * kMb);
  for (int i = 1; i < 5; ++i) t.annotation("ProfilerStep#" + std::to_string(i), 100 * i, 100);
  EXPECT_EQ(memory_of(t).growth_bytes_per_step, 0);
}

TEST(Memory, WithoutTotalsThereAreNoLevelsButGrowth) {
  TraceRows t;
  for (int i = 0; i < 5; ++i) {
    t.annotation("ProfilerStep#" + std::to_string(i), 100 * i, 100);
    t.allocation(100 * i + 10, 5 * kMb, -1, -1).allocation(100 * i + 90, -4 * kMb, -1, -1);
  }
  const Memory m = memory_of(t);
  EXPECT_EQ(m.peak_allocated_bytes, std::nullopt);
  EXPECT_EQ(m.peak_reserved_bytes, std::nullopt);
  EXPECT_EQ(m.fragmentation_pct, std::nullopt);
  EXPECT_TRUE(m.timeline.empty());
  EXPECT_EQ(m.growth_bytes_per_step, 1.0 * kMb);
}

TEST(Memory, AllocatorCallsAreCountedInMeasuredSteps) {
  TraceRows t;
  for (int i = 0; i < 4; ++i) t.annotation("ProfilerStep#" + std::to_string(i), 1000 * i, i == 0 ? 1000 : 500);
  t.call("cudaMalloc", 10, 5).call("cudaMalloc", 1100, 5).call("cudaFree", 1200, 5).call("hipMalloc", 3100, 5);
  t.call("cudaMalloc", 1700, 5);   // between steps
  t.call("cudaLaunchKernel", 2100, 5);
  const Memory m = memory_of(t);
  EXPECT_EQ(m.allocator_calls, 5);
  EXPECT_EQ(m.steps_with_allocator_calls, 2);   // steps 1 and 3; step 0 is warm-up
  EXPECT_EQ(m.peak_allocated_bytes, std::nullopt);
}

TEST(Memory, TheTimelineKeepsPeaksOfManyEvents) {
  TraceRows t;
  for (int i = 0; i < 5000; ++i) t.allocation(i, 1, i == 3333 ? 999'999 : i % 100, 1'000'000);
  const Memory m = memory_of(t);
  EXPECT_LE(m.timeline.size(), 500u);
  int64_t top = 0;
  for (const MemoryPoint& p : m.timeline) top = std::max(top, *p.allocated_bytes);
  EXPECT_EQ(top, 999'999);
}


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

TEST(Memory, GrowthGoesOnWhereNamesCountFromTheStartAgain) {
  TraceRows t;
  for (int i = 0; i < 12; ++i) {
    t.annotation("epoch " + std::to_string(i / 4) + " step " + std::to_string(i % 4), 100 * i, 100);
    t.allocation(100 * i + 10, 5 * kMb, (15 + i) * kMb, 64 * kMb);
    t.allocation(100 * i + 90, -5 * kMb, (10 + i) * kMb, 64 * kMb);
  }
  EXPECT_EQ(memory_of(t).growth_bytes_per_step, 1.0 * kMb);
}

TEST(Memory, OnlyWhatIsReservedMeanwhileShowsFragmentation) {
  TraceRows before, meanwhile;
  before.allocation(10, 4 * kMb, 4 * kMb, 40 * kMb).allocation(20, 4 * kMb, 8 * kMb, 40 * kMb);
  meanwhile.allocation(10, 4 * kMb, 4 * kMb, 20 * kMb).allocation(20, 4 * kMb, 8 * kMb, 30 * kMb);
  EXPECT_FALSE(memory_of(before).reserved_beside_unused);
  EXPECT_TRUE(memory_of(meanwhile).reserved_beside_unused);
}

TEST(Memory, EachDeviceHasAPeak) {
  TraceRows t;
  t.allocation(10, kMb, kMb, 2 * kMb, 0).allocation(11, kMb, 3 * kMb, 3 * kMb, 1);
  EXPECT_EQ(memory_of(t).reserved_by_device, (std::map<int32_t, int64_t>{{0, 2 * kMb}, {1, 3 * kMb}}));
}

}  // namespace
}  // namespace profgpu
