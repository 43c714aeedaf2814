#include "analyse/job/matched_collectives.h"

#include <gtest/gtest.h>

#include "analyse/job/job.h"
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
  EXPECT_LT(matched_collectives({job.ranks, met, clocks}).size(), 20u);   // in order alone, those behind the loss do not fit
  const std::optional<MatchedCalls> again = matched_by_time({job.ranks, met, clocks});
  ASSERT_TRUE(again);
  EXPECT_EQ(again->size(), 20u);
  const std::vector<RankClock> better = align_clocks(job.ranks, *again);
  EXPECT_FALSE(better[1].apart);
  EXPECT_EQ(better[1].offset_ns, 0);
  EXPECT_EQ(better[1].error_ns, 2'000);
  EXPECT_EQ(better[2].offset_ns, -3'600'000'003'000);
  EXPECT_EQ(matched_collectives({job.ranks, *again, better}).size(), 20u);
  EXPECT_FALSE(matched_by_time({job.ranks, *again, better}));
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
  const std::optional<MatchedCalls> again = matched_by_time({job.ranks, met, align_clocks(job.ranks, met)});
  ASSERT_TRUE(again);
  const std::vector<MatchedCollective> all = matched_collectives({job.ranks, *again, align_clocks(job.ranks, *again)});
  EXPECT_EQ(all.size(), 24u);
  for (const MatchedCollective& m : all) EXPECT_TRUE(m.transfer_ns() == 50'000 || m.transfer_ns() == 8'000);
  EXPECT_EQ(again->alone.size(), 10u);
}


using test::HandJob;

constexpr int64_t kMs = 1'000'000;

std::vector<MissingCalls> missing(const HandJob& job) {
  const MatchedCalls met = matched_calls(job.ranks);
  return missing_calls({job.ranks, met, align_clocks(job.ranks, met)});
}

/// Ten steps of 100 ms with an all-reduce each; `lacks(rank, step)` says who has no record.
template <class F>
HandJob steps_of(int ranks, F lacks, const std::string& members = "", int32_t group_size = 0) {
  HandJob job;
  for (int r = 0; r < ranks; ++r) job.add("", {r * 3'600'000 * kMs, 0});
  job.steps(10, 100 * kMs);
  for (int i = 0; i < 10; ++i) {
    std::vector<HandJob::Part> parts;
    for (int r = 0; r < ranks; ++r)
      if (!lacks(r, i)) parts.push_back({r, i * 100 * kMs + (50 + r) * kMs, i * 100 * kMs + 70 * kMs});
    job.call({.members = members, .number = 100 + i, .step = i, .group_size = group_size > 0 ? group_size : ranks},
             parts);
  }
  return job;
}

TEST(MissingCallsTest, ARankWithoutACallThatOthersHaveIsNamed) {
  const std::vector<MissingCalls> all = missing(steps_of(4, [](int r, int i) { return r == 2 && (i == 4 || i == 6); }));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].rank, 2);
  EXPECT_EQ(all[0].kind, "missing");
  EXPECT_EQ(all[0].name, "all_reduce");
  EXPECT_EQ(all[0].process_group, "0");
  EXPECT_EQ(all[0].number, 104);
  EXPECT_EQ(all[0].step, 4);
  EXPECT_EQ(all[0].calls, 2);
  EXPECT_EQ(all[0].others, 3);
  EXPECT_EQ(all[0].first_ns, 450 * kMs);
}

TEST(MissingCallsTest, OfTwoRanksTheOneLeftIsEnough) {
  const std::vector<MissingCalls> all = missing(steps_of(2, [](int r, int i) { return r == 0 && i == 3; }));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].rank, 0);
  EXPECT_EQ(all[0].others, 1);
}

TEST(MissingCallsTest, NothingIsMissingWhereAllIsThereOrATraceIsShorter) {
  EXPECT_TRUE(missing(steps_of(4, [](int, int) { return false; })).empty());
  EXPECT_TRUE(missing(steps_of(4, [](int r, int i) { return r == 1 && i < 3; })).empty());
  EXPECT_TRUE(missing(steps_of(4, [](int r, int i) { return r == 1 && i > 7; })).empty());
  // A rank that is not in hand, or not in the group.
  EXPECT_TRUE(missing(steps_of(2, [](int, int) { return false; }, "[0, 1, 7]", 3)).empty());
  EXPECT_TRUE(missing(steps_of(3, [](int r, int) { return r == 2; }, "[0, 1]", 2)).empty());
}

TEST(MissingCallsTest, ACallWithShorterOnesInItMayBeTheOneThatIsMissed) {
  HandJob job = steps_of(2, [](int r, int i) { return r == 1 && i == 5; });
  const auto both = [&](int64_t number, int64_t start_ms, int64_t end_ms) {
    job.call({.name = "all_gather", .number = number, .step = 5, .group_size = 2},
             {{0, start_ms * kMs, end_ms * kMs}, {1, start_ms * kMs, end_ms * kMs}});
  };
  both(500, 510, 590);
  for (int64_t i = 0; i < 3; ++i) both(501 + i, 512 + 4 * i, 514 + 4 * i);
  EXPECT_TRUE(missing(job).empty());
}

TEST(MissingCallsTest, ARankThatNeverArrivesHangsTheOthers) {
  for (const bool by_members : {false, true}) {
    const std::string members = by_members ? "[0, 1, 2]" : "";
    HandJob job = steps_of(3, [](int, int i) { return i == 9; }, members, 3);
    job.call({.members = members, .number = 109, .step = 9, .group_size = 3},
             {{0, 950 * kMs, 5'000 * kMs}, {2, 960 * kMs, 5'000 * kMs}});
    job.cover(1, 0, 4'900 * kMs);
    const std::vector<MissingCalls> all = missing(job);
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].rank, 1);
    EXPECT_EQ(all[0].kind, "never_arrived");
    EXPECT_EQ(all[0].step, 9);
    EXPECT_EQ(all[0].others, 2);
    EXPECT_EQ(all[0].first_ns, 950 * kMs);
    // The step that hangs is none that tells how long a step takes.
    HandJob hung = job;
    for (RankDigest& r : hung.ranks) r.steps.back().duration_ns += 4'000 * kMs;
    for (const auto& [rank, ns] : analyse_job(hung.ranks).step_mean_ns) EXPECT_EQ(ns, 100 * kMs) << rank;
    // If the others go on, they did not wait for it.
    job.cover(0, 0, 9'000 * kMs);
    EXPECT_TRUE(missing(job).empty());
  }
}

TEST(MissingCallsTest, OneNameOfSeveralGroupsSaysNothing) {
  HandJob job;
  for (int r = 0; r < 4; ++r) job.add();
  for (int i = 0; i < 9; ++i)   // groups of two under one name, without members, in turn
    for (const int r : {0, 2}) {
      const int64_t end = (i * 10 + r) * kMs;
      job.call({.number = 2 * i + r}, {{r, end - kMs, end}, {r + 1, end - kMs, end}});
    }
  EXPECT_TRUE(missing(job).empty());
}

TEST(MembersTest, ListsAreRead) {
  EXPECT_EQ(member_ranks("[0, 1, 12]"), (std::vector<int>{0, 1, 12}));
  EXPECT_EQ(member_ranks("[3]"), (std::vector<int>{3}));
  for (const char* bad : {"", "[]", "[0, 1, ...]", "[0, 1", "0, 1", "[99999999999]", "[-1]", "[a]"})
    EXPECT_TRUE(member_ranks(bad).empty()) << bad;
}

}  // namespace
}  // namespace profgpu
