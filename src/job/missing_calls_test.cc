#include "job/missing_calls.h"

#include <gtest/gtest.h>

#include "job/job.h"
#include "job/matched_calls.h"
#include "tests/support/hand_job.h"

namespace profgpu {
namespace {

using test::HandJob;

constexpr int64_t kMs = 1'000'000;

std::vector<MissingCalls> missing(const HandJob& job) {
  const MatchedCalls met = matched_calls(job.ranks);
  return missing_calls(job.ranks, met, align_clocks(job.ranks, met));
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
    job.call({.members = members, .number = 100 + i, .step = i, .group_size = group_size > 0 ? group_size : ranks}, parts);
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
