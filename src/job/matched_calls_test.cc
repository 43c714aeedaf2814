#include "job/matched_calls.h"

#include <gtest/gtest.h>

#include "job/meetings.h"
#include "job/missing_calls.h"
#include "tests/support/hand_job.h"

namespace profgpu {
namespace {

using test::HandJob;

/// Which calls of the ranks are one collective, by their starts on rank clocks.
std::vector<std::vector<int64_t>> starts(const HandJob& job, const MatchedCalls& met) {
  std::vector<std::vector<int64_t>> out;
  for (size_t i = 0; i < met.size(); ++i) {
    out.emplace_back();
    for (const RankCall& c : met[i]) out.back().push_back(job.ranks[c.rank].calls.calls[c.call].start_ns);
  }
  std::sort(out.begin(), out.end());
  return out;
}

using Starts = std::vector<std::vector<int64_t>>;

TEST(MatchedCallsTest, GroupsAreOneByNameAndMembers) {
  HandJob job;
  for (int r = 0; r < 4; ++r) job.add();
  job.call({.group = "tp", .members = "[0, 1]"}, {{0, 10, 20}, {1, 11, 20}});
  job.call({.group = "tp", .members = "[2, 3]"}, {{2, 12, 20}, {3, 13, 20}});
  EXPECT_EQ(starts(job, matched_calls(job.ranks)), (Starts{{10, 11}, {12, 13}}));
}

TEST(MatchedCallsTest, CallsThatShareANumberAreMatchedInOrder) {
  HandJob job;
  for (int r = 0; r < 2; ++r) job.add();
  for (int i = 0; i < 3; ++i) job.call({.number = 7}, {{0, 100 * i, 100 * i + 50}, {1, 100 * i + 5, 100 * i + 50}});
  EXPECT_EQ(starts(job, matched_calls(job.ranks)), (Starts{{0, 5}, {100, 105}, {200, 205}}));
}

TEST(MatchedCallsTest, WhatOneRankAloneHasIsKeptApart) {
  HandJob job;
  for (int r = 0; r < 2; ++r) job.add();
  job.call({.number = 1}, {{0, 0, 10}, {1, 0, 10}});
  job.call({.number = 2}, {{1, 20, 30}});
  job.call({.name = "send", .number = 3, .group_size = 2}, {{1, 40, 50}});
  const MatchedCalls met = matched_calls(job.ranks);
  EXPECT_EQ(met.size(), 1u);
  ASSERT_EQ(met.alone.size(), 1u);
  EXPECT_EQ(met.alone[0].rank, 1u);
  EXPECT_EQ(met.kinds[met.alone_kind[0]].name, "all_reduce");
}

/// Three ranks, twenty calls in order without numbers or steps, irregular in time; rank 1 has lost its third. Rank 2 is
/// an hour ahead.
HandJob slipped_job() {
  HandJob job;
  job.add("a"), job.add("a"), job.add("b", {3'600'000'000'000, 0});
  int64_t place = 0;
  for (int i = 0; i < 20; ++i) {
    const int64_t end = 1'000'000 * i + 37'000 * (i * i % 11);
    job.call({.number = i}, {{0, end - 200'000, end}, {2, end - 400'000, end + 3'000}});
    if (i != 2) job.call({.number = place++}, {{1, end - 100'000, end + 2'000}});
  }
  return job;
}

TEST(MatchedCallsTest, ALostRecordShiftsNothingWhereTimesTell) {
  const HandJob job = slipped_job();
  const MatchedCalls met = matched_calls(job.ranks);
  EXPECT_TRUE(align_clocks(job.ranks, met)[1].apart);   // the shift looks like a clock's
  const std::vector<RankClock> clocks = align_clocks(job.ranks, met, true);
  EXPECT_LT(meetings(job.ranks, met, clocks).size(), 20u);   // in order alone, those behind the loss do not fit
  const std::optional<MatchedCalls> again = matched_by_time(job.ranks, met, clocks);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->size(), 20u);
  const std::vector<RankClock> better = align_clocks(job.ranks, *again);
  EXPECT_FALSE(better[1].apart);
  EXPECT_EQ(better[1].offset_ns, 0);
  EXPECT_EQ(better[1].error_ns, 2'000);
  EXPECT_EQ(better[2].offset_ns, -3'600'000'003'000);
  EXPECT_EQ(meetings(job.ranks, *again, better).size(), 20u);
  EXPECT_FALSE(matched_by_time(job.ranks, *again, better));
}

TEST(MatchedCallsTest, NumbersThatBeginAgainAreToldApartByTime) {
  HandJob job;
  job.add(), job.add("", {3'600'000'000'000, 0});
  for (int i = 0; i < 4; ++i) {   // what ties the clocks
    const int64_t end = 7'000'000 * (i + 1) + 500'000;
    job.call({.group = "1", .number = i}, {{0, end - 9'000, end}, {1, end - 8'000, end}});
  }
  for (int i = 0; i < 30; ++i) {   // numbers run from 0 to 9 three times; rank 1's trace begins with the second run
    const int64_t end = 1'000'000 * (i + 1) + 37'000 * (i * i % 11);
    if (i >= 10) job.call({.number = i % 10}, {{0, end - 90'000, end}, {1, end - 50'000, end}});
    else job.call({.number = i % 10, .group_size = 2}, {{0, end - 90'000, end}});
  }
  const MatchedCalls met = matched_calls(job.ranks);
  EXPECT_EQ(met.size(), 4u);
  const std::optional<MatchedCalls> again = matched_by_time(job.ranks, met, align_clocks(job.ranks, met));
  ASSERT_TRUE(again);
  const std::vector<Meeting> all = meetings(job.ranks, *again, align_clocks(job.ranks, *again));
  EXPECT_EQ(all.size(), 24u);
  for (const Meeting& m : all) EXPECT_TRUE(m.transfer_ns() == 50'000 || m.transfer_ns() == 8'000);
  EXPECT_EQ(again->alone.size(), 10u);
}

}  // namespace
}  // namespace profgpu
