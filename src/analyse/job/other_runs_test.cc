#include "analyse/job/job.h"

#include <gtest/gtest.h>

#include "tests/support/hand_job.h"

namespace profgpu {
namespace {

constexpr int64_t kMs = 1'000'000, kHour = 3'600'000 * kMs, kUnix = 1'700'000'000'000 * kMs;

class OtherRunsTest : public testing::Test {
 protected:
  /// Three ranks of one run, and one that counted the same collectives: by a clock that is `ahead`, `jitter` off in
  /// turns, in steps whose numbers are `later`.
  static test::HandJob job(int64_t ahead_ns, int64_t jitter_ns, int64_t later = 0, std::string host = "node-1") {
    test::HandJob job;
    for (int r = 0; r < 3; ++r) job.add("node-0", {kUnix});
    job.add(std::move(host), {kUnix + ahead_ns});
    job.steps(20, 100 * kMs);
    for (int i = 0; i < 20; ++i) {
      const int64_t at = 100 * kMs * i + 50 * kMs, off = jitter_ns * (i * i % 7);
      job.call(
          {.number = i, .step = i},
          {{0, at, at + 2 * kMs}, {1, at, at + 2 * kMs}, {2, at, at + 2 * kMs}, {3, at + off, at + off + 2 * kMs}});
    }
    for (DigestStep& s : job.ranks[3].steps) s.index += later;
    return job;
  }
  static std::vector<int> found(const std::vector<RankDigest>& ranks) {
    std::vector<int> out;
    for (const OtherRun& o : ranks_of_other_runs(ranks)) out.push_back(o.rank);
    return out;
  }
};

TEST_F(OtherRunsTest, AClockThatIsWrongByAnHourPutsNobodyOut) {
  EXPECT_TRUE(found(job(kHour, 0).ranks).empty());
  EXPECT_TRUE(found(job(-kHour, 5'000).ranks).empty());
  EXPECT_TRUE(found(job(kHour, 0, 0, "node-0").ranks).empty()) << "containers with one host's name";
}

TEST_F(OtherRunsTest, CollectivesThatCannotBeTheOthersDo) {
  const auto others = ranks_of_other_runs(job(kHour, 3 * kMs).ranks);
  ASSERT_EQ(others.size(), 1U);
  EXPECT_EQ(others[0].rank, 3);
  EXPECT_NE(others[0].why.find("20 collectives with the same names and numbers as rank 0's"), std::string::npos)
      << others[0].why;
  EXPECT_NE(others[0].why.find("60 min 00 s later"), std::string::npos) << others[0].why;
  EXPECT_TRUE(found(job(0, 3 * kMs).ranks).empty()) << "at the same time: records may be lost";
}

TEST_F(OtherRunsTest, SoDoOtherStepsOfTheSameCollectives) {
  EXPECT_EQ(found(job(kHour, 0, 1000).ranks), std::vector<int>{3});
  EXPECT_TRUE(found(job(0, 0, 1000).ranks).empty());
}

TEST_F(OtherRunsTest, TheFirstRankMayBeTheStranger) {
  test::HandJob strange = job(kHour, 3 * kMs);
  std::swap(strange.ranks[0], strange.ranks[3]);
  std::swap(strange.ranks[0].rank, strange.ranks[3].rank);
  EXPECT_EQ(found(strange.ranks), std::vector<int>{0});
}

TEST_F(OtherRunsTest, OfTwoTheFirstStays) {
  test::HandJob pair = job(-kHour, 3 * kMs);
  pair.ranks.erase(pair.ranks.begin() + 1, pair.ranks.begin() + 3);
  EXPECT_EQ(found(pair.ranks), std::vector<int>{3});
}

TEST_F(OtherRunsTest, AnotherSizeOfTheWorldThanMost) {
  test::HandJob worlds = job(0, 0);
  for (RankDigest& r : worlds.ranks) r.world_size = 4;
  EXPECT_TRUE(found(worlds.ranks).empty());
  worlds.ranks[1].world_size = 16;
  const auto others = ranks_of_other_runs(worlds.ranks);
  ASSERT_EQ(others.size(), 1U);
  EXPECT_EQ(others[0].rank, 1);
  EXPECT_EQ(others[0].why, "its world size is 16 ranks, most others' is 4");
  worlds.ranks[2].world_size = 16;
  EXPECT_TRUE(found(worlds.ranks).empty()) << "two against two";
  worlds.ranks[3].world_size.reset();
  EXPECT_EQ(found(worlds.ranks), std::vector<int>{0}) << "who states none is with the others";
}

TEST_F(OtherRunsTest, AStepThatAHostRanTwice) {
  test::HandJob alone = job(kHour, 0, 0, "node-0");
  for (CollectiveKind& k : alone.ranks[3].calls.kinds) k.group = "7";
  EXPECT_EQ(found(alone.ranks), std::vector<int>{3});
  for (DigestStep& s : alone.ranks[3].steps) s.index += 1000;   // may be a later part of the same run
  EXPECT_TRUE(found(alone.ranks).empty());
}

TEST_F(OtherRunsTest, TimesFromAMomentOfTheirOwnAreNoEvidence) {
  EXPECT_TRUE(found(job(-kUnix, 3 * kMs, 1000).ranks).empty());
}

}  // namespace
}  // namespace profgpu
