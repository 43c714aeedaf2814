#include "app/export/timeline_ids.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tests/support/hand_trace.h"

namespace profgpu {
namespace {

// Four launches, each with a kernel a hundred microseconds later.
Trace four_kernels() {
  HandTrace trace;
  trace.range("ProfilerStep#1", 0, 200).range("ProfilerStep#2", 200, 400);
  for (int64_t i = 0; i < 4; ++i) trace.kernel("nccl", 100 * i, 100 * i + 5, 100 * i + 100, 100 * i + 150);
  return trace.build();
}

class MetRanks : public testing::Test {
 protected:
  static CallTiming call(uint32_t activity, int64_t wait_ns, int64_t collective) {
    return {ActivityId(activity), wait_ns, 1000, true, 0, collective};
  }
  void add(int rank, std::vector<CallTiming> calls, Interval part = RankRows::kAllTime) {
    facts_.push_back(std::make_unique<Facts>(trace_, AnalysisOptions{}));
    facts_.back()->provide(CallTimings{std::move(calls)});
    run_.ranks.emplace_back(rank, *facts_.back(), part);
  }
  const Trace trace_ = four_kernels();
  std::vector<std::unique_ptr<Facts>> facts_;
  RunRows run_;
};

TEST_F(MetRanks, ArrowsLeadToTheLatest) {
  add(0, {call(0, 50, 7), call(1, 0, 8)});
  add(4, {call(0, 0, 7), call(1, 20, 8)});
  add(9, {call(0, 30, 7)});
  const CollectiveArrows arrows(run_);
  const CollectiveEnd* latest = arrows.find(run_.ranks[1], ActivityId(0U));
  ASSERT_NE(latest, nullptr);
  EXPECT_TRUE(latest->latest);
  EXPECT_EQ(latest->arrows, 2U);
  std::vector<uint64_t> begun;
  for (const size_t r : {0U, 2U}) {
    const CollectiveEnd* other = arrows.find(run_.ranks[r], ActivityId(0U));
    EXPECT_FALSE(other->latest);
    EXPECT_EQ(other->arrows, 1U);
    begun.push_back(other->first);
  }
  std::sort(begun.begin(), begun.end());
  EXPECT_EQ(begun, (std::vector<uint64_t>{latest->first, latest->first + 1}));
  EXPECT_TRUE(arrows.find(run_.ranks[0], ActivityId(1U))->latest);
  EXPECT_EQ(arrows.find(run_.ranks[2], ActivityId(1U)), nullptr);
}

TEST_F(MetRanks, OfThoseThatCameTogetherTheLastRankIsTheLatest) {
  add(0, {call(0, 0, 7)});
  add(1, {call(0, 0, 7)});
  const CollectiveArrows arrows(run_);
  EXPECT_FALSE(arrows.find(run_.ranks[0], ActivityId(0U))->latest);
  EXPECT_TRUE(arrows.find(run_.ranks[1], ActivityId(0U))->latest);
}

TEST_F(MetRanks, WhatIsNotShownHasNoArrow) {
  add(0, {call(0, 50, 7), call(3, 50, 8)});
  add(1, {call(0, 0, 7), call(3, 0, 8)}, {200'000, 400'000});
  const CollectiveArrows arrows(run_);
  EXPECT_EQ(arrows.find(run_.ranks[0], ActivityId(0U))->arrows, 0U) << "what is known of the call stays";
  EXPECT_EQ(arrows.find(run_.ranks[1], ActivityId(0U)), nullptr);
  EXPECT_EQ(arrows.find(run_.ranks[0], ActivityId(3U))->arrows, 1U);
}

TEST_F(MetRanks, APartHasHostRangesCutAndDeviceWorkWhole) {
  add(0, {}, {200'000, 300'000});
  const RankRows& rank = run_.ranks.front();
  EXPECT_EQ(rank.shown({100'000, 250'000}), (Interval{200'000, 250'000}));
  EXPECT_EQ(rank.shown({0, 900'000}), (Interval{200'000, 300'000}));
  EXPECT_EQ(rank.shown({100'000, 200'000}), std::nullopt) << "it only touches the part";
  EXPECT_EQ(rank.shown({200'000, 200'000}), (Interval{200'000, 200'000}));
  EXPECT_FALSE(rank.shows(ActivityId(0U)));
  EXPECT_TRUE(rank.shows(ActivityId(1U))) << "it runs in the part";
  EXPECT_TRUE(rank.shows(ActivityId(2U))) << "it was launched in the part";
  EXPECT_FALSE(rank.shows(ActivityId(3U)));
  EXPECT_EQ(rank.extent(), (Interval{200'000, 350'000}));
}

TEST_F(MetRanks, ARankThatNothingTiesToTheOthersStartsWithThem) {
  add(0, {});
  add(1, {}, {200'000, 400'000});
  Job job;
  job.clocks = {{0, 0, 0, "reference"}, {1, 77, {}, "none"}};
  run_.job = &job;
  EXPECT_EQ(run_.clock(run_.ranks[0])(5), 5);
  EXPECT_EQ(run_.clock(run_.ranks[1])(200'000), 0);
  EXPECT_FALSE(clock_note(job.clocks[1]).empty());
  job.clocks[1].method = "collectives";
  EXPECT_EQ(run_.clock(run_.ranks[1])(200'000), 200'077);
  EXPECT_TRUE(clock_note(job.clocks[1]).empty());
}

}  // namespace
}  // namespace profgpu
