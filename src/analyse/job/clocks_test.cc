#include "analyse/job/clocks.h"

#include <gtest/gtest.h>

#include <random>

#include "analyse/job/job.h"
#include "analyse/job/matched_collectives.h"
#include "tests/support/hand_job.h"

namespace profgpu {
namespace {

using test::HandJob;

constexpr int64_t kHour = 3'600'000'000'000;
constexpr int64_t kMs = 1'000'000;

/// Ranks spread over hosts in blocks, with an all-reduce of all every `period`, in which a random rank is late.
struct Plan {
  int ranks = 8, hosts = 4, calls = 60;
  int64_t period_ns = 200 * kMs, jitter_ns = 20'000, offset_ns = kHour;
  double drift_ppm = 50;
  uint64_t seed = 1;
};

struct Planned {
  HandJob job;
  std::vector<HandJob::Clock> clocks;   // by rank
};

Planned planned(const Plan& plan) {
  std::mt19937_64 random(plan.seed);
  const auto uniform = [&](int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(random);
  };
  std::vector<HandJob::Clock> of_host;
  for (int h = 0; h < plan.hosts; ++h)
    of_host.push_back({uniform(-plan.offset_ns, plan.offset_ns),
                       plan.drift_ppm * static_cast<double>(uniform(-1000, 1000)) / 1000});
  Planned p;
  for (int r = 0; r < plan.ranks; ++r) {
    const int host = r * plan.hosts / plan.ranks;
    p.clocks.push_back(of_host[static_cast<size_t>(host)]);
    p.job.add("host" + std::to_string(host), p.clocks.back());
  }
  for (int i = 0; i < plan.calls; ++i) {
    const int64_t end = (i + 1) * plan.period_ns, late = uniform(0, plan.ranks - 1);
    std::vector<HandJob::Part> parts;
    for (int r = 0; r < plan.ranks; ++r)
      parts.push_back({r, r == late ? end - kMs : end - uniform(2 * kMs, 40 * kMs), end + uniform(0, plan.jitter_ns)});
    p.job.call({.number = i}, parts);
  }
  return p;
}

/// How far a rank's aligned time is off at a true time: both clocks show it, and the first one's is what is asked for.
int64_t off(const HandJob& job, const std::vector<RankClock>& clocks, size_t rank, int64_t true_ns) {
  return clocks[rank].aligned(job.shown(static_cast<int>(rank), true_ns)) - job.shown(0, true_ns);
}

std::vector<RankClock> aligned(const HandJob& job) {
  const MatchedCalls met = matched_calls(job.ranks);
  return align_clocks(job.ranks, met);
}

TEST(ClocksTest, PlantedOffsetsAndDriftsAreFound) {
  for (const auto& [ranks, hosts] : {std::pair{2, 2}, {4, 1}, {8, 4}, {16, 8}, {64, 8}})
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      const Plan plan{.ranks = ranks, .hosts = hosts, .seed = seed};
      const Planned p = planned(plan);
      const std::vector<RankClock> clocks = aligned(p.job);
      const int64_t end = plan.calls * plan.period_ns;
      for (size_t r = 0; r < clocks.size(); ++r) {
        SCOPED_TRACE(testing::Message() << ranks << " ranks, " << hosts << " hosts, seed " << seed << ", rank " << r);
        EXPECT_TRUE(clocks[r].known());
        EXPECT_LE(std::abs(off(p.job, clocks, r, end / 2)), clocks[r].error_ns.value());
        EXPECT_LE(clocks[r].error_ns.value(), 30'000);
        EXPECT_NEAR(clocks[r].drift_ppm, p.clocks[0].fast_ppm - p.clocks[r].fast_ppm, 4);
        // By the ends of the trace a drift that is not seen would be off by up to 600 us.
        EXPECT_LE(std::abs(off(p.job, clocks, r, 0)), 60'000);
        EXPECT_LE(std::abs(off(p.job, clocks, r, end)), 60'000);
      }
    }
}

TEST(ClocksTest, TheErrorCoversTheTruthHoweverFewTheCalls) {
  int covered = 0, all = 0;
  for (const int calls : {1, 2, 3, 5, 8, 20, 100})
    for (uint64_t seed = 1; seed <= 100; ++seed) {
      const Plan plan{.ranks = 3, .hosts = 3, .calls = calls, .drift_ppm = 0, .seed = seed};
      const Planned p = planned(plan);
      const std::vector<RankClock> clocks = aligned(p.job);
      for (size_t r = 1; r < clocks.size(); ++r) {
        ++all;
        covered += std::abs(off(p.job, clocks, r, calls * plan.period_ns / 2)) <= clocks[r].error_ns.value();
      }
    }
  EXPECT_GE(covered, all * 99 / 100) << covered << " of " << all;
}

TEST(ClocksTest, ADriftTooSmallToSeeIsNotStated) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<RankClock> clocks = aligned(planned({.calls = 10, .period_ns = kMs, .seed = seed}).job);
    for (const RankClock& c : clocks) EXPECT_EQ(c.drift_ppm, 0);   // 50 ppm of 10 ms are 500 ns
  }
}

TEST(ClocksTest, WrongMatchesHaveNoSay) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Planned p = planned({.ranks = 2, .hosts = 2, .seed = seed});
    // Two of five calls of rank 1 are another collective's.
    std::vector<CollectiveCall>& calls = p.job.ranks[1].calls.calls;
    for (size_t i = 0; i < calls.size(); ++i)
      if (i % 5 < 2)
        calls[i].start_ns += static_cast<int64_t>(i) * 977'777, calls[i].end_ns += static_cast<int64_t>(i) * 977'777;
    const std::vector<RankClock> clocks = aligned(p.job);
    EXPECT_LE(std::abs(off(p.job, clocks, 1, 6'000 * kMs)), clocks[1].error_ns.value());
    EXPECT_LE(clocks[1].error_ns.value(), 40'000);
  }
}

TEST(ClocksTest, ErrorsAddUpAlongTheWay) {
  // Rank r meets only r - 1 and r + 1.
  HandJob job;
  std::mt19937_64 random(7);
  for (int r = 0; r < 6; ++r) job.add("", {r * kHour / 7, 0});
  for (int i = 0; i < 40; ++i)
    for (int r = 0; r + 1 < 6; ++r) {
      const int64_t end = i * 100 * kMs + r * 10 * kMs;
      const auto late = [&] { return static_cast<int64_t>(random() % 20'000); };
      job.call({.group = std::to_string(r), .number = i},
               {{r, end - 3 * kMs, end + late()}, {r + 1, end - kMs, end + late()}});
    }
  const std::vector<RankClock> clocks = aligned(job);
  for (size_t r = 1; r < 6; ++r) {
    EXPECT_GT(clocks[r].error_ns.value(), clocks[r - 1].error_ns.value());
    EXPECT_LE(std::abs(off(job, clocks, r, 2'000 * kMs)), clocks[r].error_ns.value());
  }
}

TEST(ClocksTest, RanksOfOneNameOnTwoHostsAreApart) {
  HandJob job;
  for (const int64_t ahead : {0, 0, 0, 5}) job.add("box", {ahead * kMs, 0});
  for (int i = 0; i < 20; ++i)
    job.call({.number = i}, {{0, 0, (i + 1) * 10 * kMs},
                             {1, 0, (i + 1) * 10 * kMs + 700},
                             {2, 0, (i + 1) * 10 * kMs},
                             {3, 0, (i + 1) * 10 * kMs}});
  const std::vector<RankClock> clocks = aligned(job);
  EXPECT_EQ(clocks[1].method, "same host");
  EXPECT_EQ(clocks[1].offset_ns, 0);
  EXPECT_EQ(clocks[1].error_ns, 700);   // what its own calls say against it
  EXPECT_FALSE(clocks[2].apart);
  EXPECT_TRUE(clocks[3].apart);
  EXPECT_EQ(clocks[3].method, "collectives");
  EXPECT_EQ(clocks[3].offset_ns, -5 * kMs);
}

TEST(ClocksTest, BroadcastsAreALastResort) {
  HandJob job;
  job.add("a");
  job.add("b", {kHour, 0});
  for (int i = 0; i < 20; ++i)   // the root leaves 2 ms before
    job.call({.name = "broadcast", .number = i},
             {{0, i * 10 * kMs, i * 10 * kMs + kMs}, {1, i * 10 * kMs, i * 10 * kMs + 3 * kMs}});
  std::vector<RankClock> clocks = aligned(job);
  EXPECT_EQ(clocks[1].method, "collectives");
  EXPECT_NEAR(static_cast<double>(clocks[1].offset_ns + kHour), -2e6, 10);
  EXPECT_GE(clocks[1].error_ns.value(), kMs);
  for (int i = 0; i < 3; ++i)
    job.call({.name = "barrier", .number = i}, {{0, i * 10 * kMs + 5 * kMs, i * 10 * kMs + 6 * kMs},
                                                {1, i * 10 * kMs + 5 * kMs, i * 10 * kMs + 6 * kMs}});
  clocks = aligned(job);
  EXPECT_EQ(clocks[1].offset_ns, -kHour);
}

TEST(ClocksTest, StepsServeForPicturesOnly) {
  HandJob job;
  job.add("a");
  job.add("b", {-kHour, 0});
  job.steps(5, 100 * kMs);
  job.ranks[1].steps[2].start_ns += 300;
  const std::vector<RankClock> clocks = aligned(job);
  EXPECT_EQ(clocks[1].method, "steps");
  EXPECT_EQ(clocks[1].offset_ns, kHour);
  EXPECT_EQ(clocks[1].error_ns, 150);
  EXPECT_FALSE(clocks[1].known());
}

TEST(ClocksTest, StepsWhoseNumbersBeginAnewServeIfTheyBeginAlike) {
  HandJob job;
  job.add("a");
  job.add("b", {-kHour, 0});
  job.steps(6, 100 * kMs);
  for (RankDigest& rank : job.ranks)
    for (int i = 0; i < 6; ++i) rank.steps[static_cast<size_t>(i)].index = i % 3, rank.steps[static_cast<size_t>(i)].turn = i / 3;
  std::vector<RankClock> clocks = aligned(job);
  EXPECT_EQ(clocks[1].method, "steps");
  EXPECT_EQ(clocks[1].offset_ns, kHour);
  EXPECT_EQ(clocks[1].error_ns, 1);
  job.ranks[1].steps.erase(job.ranks[1].steps.begin());   // in which epoch it begins is not known
  clocks = aligned(job);
  EXPECT_NE(clocks[1].method, "steps");
}

TEST(ClocksTest, ExtremeTimesOverflowNothing) {
  HandJob job;
  for (int r = 0; r < 3; ++r) job.add(r == 2 ? "" : "a");
  const std::vector<int64_t> extremes = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
  for (int i = 0; i < 49; ++i) {
    job.call({.number = i}, {{0, 0, 1}, {1, 0, 1}, {2, 0, 1}});
    for (size_t r = 0; r < 3; ++r) {
      CollectiveCall& c = job.ranks[r].calls.calls.back();
      c.start_ns = extremes[(static_cast<size_t>(i) + r) % 7];
      c.end_ns = extremes[(static_cast<size_t>(i) / 7 + 2 * r) % 7];
    }
  }
  for (RankDigest& d : job.ranks) d.extent = {INT64_MIN, INT64_MAX};
  const MatchedCalls met = matched_calls(job.ranks);
  const std::vector<RankClock> clocks = align_clocks(job.ranks, met);
  EXPECT_EQ(clocks.size(), 3u);
  matched_by_time({job.ranks, met, clocks});
}

TEST(ClocksTest, AShiftedClockChangesItsOffsetAlone) {
  const Planned before = planned({.seed = 3});
  Planned after = before;
  const int64_t shift = 123'456'789'012;
  for (size_t r = 2; r < 4; ++r) {   // host1
    RankDigest& d = after.job.ranks[r];
    for (CollectiveCall& c : d.calls.calls) c.start_ns += shift, c.end_ns += shift;
    d.extent = {d.extent.start + shift, d.extent.end + shift};
  }
  const std::vector<RankClock> a = aligned(before.job), b = aligned(after.job);
  for (size_t r = 0; r < a.size(); ++r) {
    EXPECT_EQ(b[r].offset_ns, a[r].offset_ns - (r == 2 || r == 3 ? shift : 0));
    EXPECT_EQ(b[r].error_ns, a[r].error_ns);
    EXPECT_DOUBLE_EQ(b[r].drift_ppm, a[r].drift_ppm);
  }
}

TEST(ClocksTest, TheOrderOfRanksChangesNothing) {
  const Planned before = planned({.ranks = 12, .hosts = 4, .drift_ppm = 0, .seed = 5});
  const std::vector<RankClock> a = aligned(before.job);
  std::vector<size_t> order(12);
  for (size_t i = 0; i < 12; ++i) order[i] = i == 0 ? 0 : 12 - i;
  HandJob shuffled = before.job;
  for (size_t i = 0; i < 12; ++i) {
    shuffled.ranks[i] = before.job.ranks[order[i]];
    shuffled.ranks[i].rank = static_cast<int>(i);
  }
  const std::vector<RankClock> b = aligned(shuffled);
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(b[i].offset_ns, a[order[i]].offset_ns);
    EXPECT_EQ(b[i].error_ns, a[order[i]].error_ns);
  }
}

/// Messages there and back, a step's each 10 ms; the receiver is there `early` before the sender or `late` after it.
/// Own clock: `off` behind, and slower by `drift_ppm`.
std::vector<Encounter> messages(int count, int64_t off, double drift_ppm, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto uniform = [&](int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(random);
  };
  std::vector<Encounter> all;
  for (int i = 0; i < count; ++i) {
    const int64_t sent = i * 10 * kMs + uniform(0, kMs), took = uniform(100'000, 3 * kMs);
    const Interval send{sent, sent + took};
    // A late receiver finds all of it there already.
    const int64_t came = sent + uniform(-5 * kMs, 5 * kMs);
    const Interval receive{came, std::max(send.end, came) + uniform(-5'000, 30'000)};
    const auto own = [&](Interval t) {
      const auto shown = [&](int64_t at) {
        return at - off - std::llround(drift_ppm * 1e-6 * static_cast<double>(at));
      };
      return Interval{shown(t.start), shown(t.end)};
    };
    const bool receives = i % 2 == 0;
    all.push_back(receives ? Encounter{send, own(receive), 0, true} : Encounter{receive, own(send), 0, false});
  }
  return all;
}

TEST(ClockFitTest, MessagesBothWaysHoldTheOffset) {
  for (uint64_t seed = 1; seed <= 50; ++seed)
    for (const double drift : {0.0, 40.0}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", drift " << drift);
      const std::vector<Encounter> all = messages(100, kHour, drift, seed);
      const int64_t at = all[50].own.end;
      const auto fit = fit_clock(all, at, false);
      ASSERT_TRUE(fit);
      const int64_t truth = kHour + std::llround(drift * 1e-6 * static_cast<double>(at + kHour));
      EXPECT_LE(std::abs(fit->offset_ns - truth), fit->error_ns);
      EXPECT_LE(fit->error_ns, 200'000);   // messages of up to 3 ms, arrivals up to 5 ms apart
    }
}

TEST(ClockFitTest, MessagesOneWayBoundOneSide) {
  std::vector<Encounter> all = messages(100, kHour, 0, 1);
  std::erase_if(all, [](const Encounter& e) { return !*e.receives; });
  EXPECT_GT(fit_clock(all, all[25].own.end, false)->error_ns, kMs);
}

TEST(ClockFitTest, OfTwoEncountersArrivalsBoundTheError) {
  const auto fit = fit_clock({{{0, 1000}, {500, 1100}}, {{5000, 6000}, {5400, 6100}}}, 3000, true);
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->offset_ns, -100);
  EXPECT_EQ(fit->error_ns, 1000);   // at 1000 more or 600 less, one would leave before the other comes
  EXPECT_FALSE(fit_clock({}, 0, true));
}

using test::HandJob;

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
  EXPECT_EQ(all_notes(job),
            "node-b states a clock error of at most 2.10 ms, but collectives show it 812 ms away from node-a\n");
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
    EXPECT_EQ(all_notes(job).find(name + " states a clock error of at most 1.00 ms, but collectives show it "), 0u)
        << all_notes(job);
    EXPECT_NE(all_notes(job).find(" away from most other hosts\n"), std::string::npos) << all_notes(job);
  }
}

// Whatever the clocks: whoever states the truth agrees, as long as they are most.
TEST(StatedClocks, NobodyIsWrongedByChance) {
  std::mt19937_64 random(7);
  const auto within = [&](int64_t most) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(2 * most + 1)) - most;
  };
  for (int round = 0; round < 50; ++round) {
    std::vector<Host> all;
    for (int h = 0; h < 6; ++h) {
      const int64_t error = kMs + static_cast<int64_t>(random() % (20 * kMs));
      all.push_back({within(error), ClockStatement{true, error}});
    }
    const size_t wrong = random() % all.size();
    all[wrong] = {(random() % 2 == 0 ? 1 : -1) * 500 * kMs, ClockStatement{true, kMs}};
    const Job job = met(hosts(all));
    for (size_t h = 0; h < all.size(); ++h)
      EXPECT_EQ(job.clocks[h].agrees, h != wrong) << "round " << round << ", host " << h;
  }
}

TEST(StatedClocks, NothingStatedIsNothingChecked) {
  EXPECT_EQ(verdicts(met(hosts({{0, {}}, {900 * kMs, ClockStatement{true, kMs}}}))), (Verdicts{{}, {}}));
  const Job job = met(hosts({{0, ClockStatement{true, kMs}}, {900 * kMs, kUnsynchronised}}));
  EXPECT_EQ(verdicts(job), (Verdicts{{}, {}}));
  EXPECT_EQ(job.clocks[1].stated_error_ns, std::nullopt);
  EXPECT_EQ(all_notes(job), "node-b reports an unsynchronized clock\n");
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
  EXPECT_NE(all_notes(out).find(
                "rank 1: no shared collective links the clock to rank 0's; aligned by Unix time, with a combined "
                "stated error of 5.00 ms"),
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
