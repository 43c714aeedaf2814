#include "job/clocks.h"

#include <gtest/gtest.h>

#include <random>

#include "job/job.h"
#include "tests/support/hand_job.h"

namespace profgpu {
namespace {

using test::HandJob;

constexpr int64_t kMs = 1'000'000;
constexpr ClockStatement kUnsynchronised{false, 16'000 * kMs};

/// A host of one rank: how far its clock is ahead of Unix time, and what it says of it.
struct Host {
  int64_t ahead_ns;
  std::optional<ClockStatement> says;
};

HandJob hosts(const std::vector<Host>& all) {
  HandJob job;
  for (const Host& h : all) {
    const int rank = job.add("node-" + std::string(1, static_cast<char>('a' + job.ranks.size())), {h.ahead_ns, 0});
    job.ranks[static_cast<size_t>(rank)].clock = h.says;
  }
  return job;
}

/// With collectives of all, which end within 10 us.
Job met(HandJob job) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20; ++i) {
    std::vector<HandJob::Part> parts;
    for (const RankDigest& r : job.ranks)
      parts.push_back({r.rank, i * 100 * kMs, i * 100 * kMs + 5 * kMs + static_cast<int64_t>(random() % 10'000)});
    job.call({.number = i}, parts);
  }
  return analyse_job(job.ranks);
}

std::string all_notes(const Job& job) {
  std::string text;
  for (const std::string& n : job.notes) text += n + "\n";
  return text;
}

std::vector<std::optional<bool>> verdicts(const Job& job) {
  std::vector<std::optional<bool>> out;
  for (const RankClock& c : job.clocks) out.push_back(c.agrees);
  return out;
}

using Verdicts = std::vector<std::optional<bool>>;

TEST(StatedClocks, TrueStatementsAgree) {
  const Job job = met(hosts({{0, ClockStatement{true, 3 * kMs}}, {4 * kMs, ClockStatement{true, 2 * kMs}}}));
  EXPECT_EQ(verdicts(job), (Verdicts{true, true}));
  EXPECT_EQ(job.clocks[0].stated_error_ns, 3 * kMs);
  EXPECT_EQ(job.clocks[1].stated_error_ns, 2 * kMs);
  EXPECT_EQ(job.clocks[1].method, "collectives");
  EXPECT_EQ(all_notes(job), "");
}

TEST(StatedClocks, TwoHostsThatCannotBothBeRight) {
  const Job job = met(hosts({{0, ClockStatement{true, kMs}}, {812 * kMs, ClockStatement{true, 2'100'000}}}));
  EXPECT_EQ(verdicts(job), (Verdicts{true, false}));
  EXPECT_EQ(all_notes(job), "node-b says its clock is within 2.10 ms; collectives show that it is 812 ms from node-a's\n");
}

// Just within the sum of what both say, and just beyond it and the error of the offset.
TEST(StatedClocks, TheSumOfBothErrorsIsTheLimit) {
  const auto at = [](int64_t ahead) {
    return met(hosts({{0, ClockStatement{true, 3 * kMs}}, {ahead, ClockStatement{true, 2 * kMs}}}));
  };
  EXPECT_EQ(at(5 * kMs - 10'000).clocks[1].agrees, true);
  const Job beyond = at(5 * kMs + 100'000);
  ASSERT_LT(beyond.clocks[1].error_ns, 50'000);
  EXPECT_EQ(beyond.clocks[1].agrees, false);
}

TEST(StatedClocks, OfManyHostsTheOneThatDiffersIsNamedEvenIfItIsTheFirst) {
  const ClockStatement good{true, kMs};
  for (const size_t wrong : {0u, 1u, 3u}) {
    std::vector<Host> all(4, {0, good});
    all[wrong].ahead_ns = -700 * kMs;
    const Job job = met(hosts(all));
    Verdicts expected(4, true);
    expected[wrong] = false;
    EXPECT_EQ(verdicts(job), expected);
    const std::string name = "node-" + std::string(1, static_cast<char>('a' + wrong));
    EXPECT_EQ(all_notes(job).find(name + " says its clock is within 1.00 ms; collectives show that it is "), 0u) << all_notes(job);
    EXPECT_NE(all_notes(job).find(" from what most hosts say\n"), std::string::npos) << all_notes(job);
  }
}

// Whatever the clocks: whoever states the truth agrees, as long as they are most.
TEST(StatedClocks, NobodyIsWrongedByChance) {
  std::mt19937_64 random(7);
  const auto within = [&](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(2 * most + 1)) - most; };
  for (int round = 0; round < 50; ++round) {
    std::vector<Host> all;
    for (int h = 0; h < 6; ++h) {
      const int64_t error = kMs + static_cast<int64_t>(random() % (20 * kMs));
      all.push_back({within(error), ClockStatement{true, error}});
    }
    const size_t wrong = random() % all.size();
    all[wrong] = {(random() % 2 == 0 ? 1 : -1) * 500 * kMs, ClockStatement{true, kMs}};
    const Job job = met(hosts(all));
    for (size_t h = 0; h < all.size(); ++h) EXPECT_EQ(job.clocks[h].agrees, h != wrong) << "round " << round << ", host " << h;
  }
}

TEST(StatedClocks, NothingStatedIsNothingChecked) {
  EXPECT_EQ(verdicts(met(hosts({{0, {}}, {900 * kMs, ClockStatement{true, kMs}}}))), (Verdicts{{}, {}}));
  const Job job = met(hosts({{0, ClockStatement{true, kMs}}, {900 * kMs, kUnsynchronised}}));
  EXPECT_EQ(verdicts(job), (Verdicts{{}, {}}));
  EXPECT_EQ(job.clocks[1].stated_error_ns, std::nullopt);
  EXPECT_EQ(all_notes(job), "node-b says that its clock is not synchronised\n");
}

TEST(StatedClocks, RanksOfOneHostAreOneStatement) {
  HandJob job;
  for (const char* host : {"a", "b", "b", "b"}) {
    job.add(host, {*host == 'b' ? 90 * kMs : 0, 0});
    job.ranks.back().clock = ClockStatement{true, kMs};
  }
  job.add("c");
  job.ranks.back().clock = ClockStatement{true, kMs};
  EXPECT_EQ(verdicts(met(job)), (Verdicts{true, false, false, false, true}));
}

TEST(StatedClocks, WithoutCollectivesUnixTimeHasTheirErrors) {
  HandJob job = hosts({{0, ClockStatement{true, 3 * kMs}}, {4 * kMs, ClockStatement{true, 2 * kMs}}, {70 * kMs, {}}});
  job.steps(4, 100 * kMs);
  const Job out = analyse_job(job.ranks);
  EXPECT_EQ(out.clocks[1].method, "stated");
  EXPECT_EQ(out.clocks[1].offset_ns, 0);
  EXPECT_EQ(out.clocks[1].error_ns, 5 * kMs);
  EXPECT_FALSE(out.clocks[1].known());
  EXPECT_EQ(out.clocks[2].method, "steps");
  EXPECT_EQ(verdicts(out), (Verdicts{{}, {}, {}}));
  EXPECT_NE(all_notes(out).find("rank 1: no collective ties the clock to rank 0's; aligned by Unix time, which the hosts say is "
                                "right within 5.00 ms together"),
            std::string::npos)
      << all_notes(out);
  // An unsynchronised clock is as good as none that says anything.
  job.ranks[1].clock = kUnsynchronised;
  EXPECT_EQ(analyse_job(job.ranks).clocks[1].method, "steps");
}

TEST(StatedClocks, NumbersBeyondReason) {
  for (const int64_t ahead : {INT64_MAX / 4, -INT64_MAX / 4}) {
    HandJob job = hosts({{0, ClockStatement{true, INT64_MAX}}, {ahead, ClockStatement{true, INT64_MAX}}});
    const Job out = met(job);
    EXPECT_EQ(out.clocks.size(), 2u);
  }
}

}  // namespace
}  // namespace profgpu
