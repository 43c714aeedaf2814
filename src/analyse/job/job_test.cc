#include "analyse/job/job.h"

#include <gtest/gtest.h>

#include <deque>

#include "tests/support/hand_job.h"
#include "tests/support/trace_rows.h"

namespace profgpu {
namespace {

using test::TraceRows;

/// Ranks of a data-parallel job: steps of 1000 ns, each with an all-reduce at its end. Times by the rank's own clock.
class JobTest : public testing::Test {
 protected:
  struct Rank {
    int64_t skew = 0;                 ///< what this rank's clock shows more than rank 0's
    std::string host = {};
    std::vector<int64_t> arrivals = {};    ///< within each step; -1: the record is missing
    std::vector<int64_t> sequence = {};    ///< empty: not recorded
    bool arguments = true;
    std::string ranks = "[0, 1]";
  };

  // Every step's collective ends 50 ns after the last arrival in `last`.
  void add(const Rank& rank, const std::vector<int64_t>& last) {
    TraceRows t;
    t.header().host_name = rank.host;
    for (size_t i = 0; i < last.size(); ++i) {
      const auto at = static_cast<int64_t>(i) * 1000 + rank.skew;
      t.annotation("ProfilerStep#" + std::to_string(i), at, 1000);
      t.kernel("gemm", at + 1, 100);
      if (i >= rank.arrivals.size() || rank.arrivals[i] < 0) continue;
      const int64_t start = at + rank.arrivals[i], duration = last[i] + 50 - rank.arrivals[i];
      if (!rank.arguments) {
        t.kernel("ncclKernel_AllReduce_RING_LL_Sum_float", start, duration, 0, 0, 20);
        continue;
      }
      t.collective({.name = "allreduce", .ranks = rank.ranks, .in = 1000, .out = 1000,
                    .sequence = i < rank.sequence.size() ? rank.sequence[i] : -1},
                   start, duration);
    }
    traces_.push_back(t.finish());
  }

  Job run() {
    for (const Trace& t : traces_) facts_.push_back(std::make_unique<Facts>(t, AnalysisOptions{}));
    std::vector<RankDigest> ranks;
    for (size_t i = 0; i < facts_.size(); ++i) ranks.push_back(rank_digest(static_cast<int>(i), *facts_[i]));
    return analyse_job(ranks);
  }
  std::deque<Trace> traces_;
  std::vector<std::unique_ptr<Facts>> facts_;
};

TEST_F(JobTest, RanksThatAreNotInHandAreNamed) {
  for (const int r : {0, 1}) add({.arrivals = {100 + r}}, {500});
  std::vector<RankDigest> ranks;
  for (size_t i = 0; i < 2; ++i)
    ranks.push_back(rank_digest(static_cast<int>(3 * i), Facts(traces_[i], {})));  // 0 and 3
  EXPECT_EQ(analyse_job(ranks).world_size, std::nullopt);
  ranks[1].world_size = 5;
  EXPECT_EQ(analyse_job(ranks).world_size, 5);
  EXPECT_TRUE(analyse_job(ranks).notes.empty());
  ranks[0].world_size = 4;
  const Job job = analyse_job(ranks);
  ASSERT_EQ(job.notes.size(), 1U);
  EXPECT_NE(job.notes[0].find("world sizes differ"), std::string::npos) << job.notes[0];
  ranks[0].world_size.reset();
  EXPECT_EQ(analyse_job(ranks).missing_ranks, (std::vector<int>{1, 2, 4}));
  for (const int impossible : {3, -1, INT32_MAX}) {
    ranks[1].world_size = impossible;
    EXPECT_EQ(analyse_job(ranks).world_size, std::nullopt) << impossible;
    EXPECT_TRUE(analyse_job(ranks).missing_ranks.empty()) << impossible;
  }
}

// As far apart as an importer lets times be: rank 0 meets rank 1 at one end of them and rank 2 at the other. A
// broadcast may be left before the last rank comes; that one comes when its clock is at its end.
TEST_F(JobTest, TimesAtTheEndsOfTheirRangeStayNumbers) {
  constexpr int64_t kFar = INT64_MAX / 4 - 100'000;
  struct Part {
    int64_t at;
    const char *name, *ranks;
  };
  const std::vector<Part> parts[] = {{{-kFar, "allreduce", "[0, 1]"}, {kFar, "allreduce", "[0, 2]"}},
                                     {{kFar, "allreduce", "[0, 1]"}, {kFar + 50'000, "broadcast", "[1, 2]"}},
                                     {{-kFar, "allreduce", "[0, 2]"}, {kFar, "broadcast", "[1, 2]"}}};
  for (int rank = 0; rank < 3; ++rank) {
    TraceRows t;
    t.header().base_time_ns = rank == 1 ? INT64_MAX / 4 : 0;
    int64_t step = 0;
    for (const Part& p : parts[rank])
      for (int64_t i = 0; i < 4; ++i) {
        t.annotation("ProfilerStep#" + std::to_string(step++), p.at + i * 1000, 1000);
        t.collective({.name = p.name, .group = p.ranks, .ranks = p.ranks, .in = 1000, .out = 1000, .sequence = i},
                     p.at + i * 1000 + 200, 700);
      }
    traces_.push_back(t.finish());
  }
  const Job job = run();
  for (const RankClock& c : job.clocks) EXPECT_TRUE(c.known()) << c.rank;
  for (const auto& [rank, ns] : job.step_mean_ns) EXPECT_EQ(ns, 1000) << rank;
  for (const auto& [rank, ns] : job.wait_ns) EXPECT_LE(ns, 8'000) << rank;
}

TEST_F(JobTest, TheRankThatArrivesLastIsTheStraggler) {
  const std::vector<int64_t> last = {500, 500, 500, 500};
  add({.arrivals = {200, 200, 200, 200}}, last);
  add({.arrivals = last}, last);
  const Job job = run();
  EXPECT_EQ(job.ranks, (std::vector<int>{0, 1}));
  EXPECT_EQ(job.step_mean_ns, (std::map<int, int64_t>{{0, 1000}, {1, 1000}}));
  EXPECT_EQ(job.step_spread_pct, 0);
  ASSERT_EQ(job.stragglers.size(), 1u);
  EXPECT_EQ(job.stragglers[0].rank, 1);   // it spends less time in collectives
  EXPECT_EQ(job.stragglers[0].excess_ns_per_step, 300);
  EXPECT_DOUBLE_EQ(job.stragglers[0].excess_pct, 30);
  EXPECT_EQ(job.stragglers[0].kind, "late");
  EXPECT_EQ(job.wait_ns, (std::map<int, int64_t>{{0, 1200}, {1, 0}}));
  ASSERT_EQ(job.clocks.size(), 2u);
  EXPECT_EQ(job.clocks[0].method, "reference");
  EXPECT_EQ(job.clocks[1].method, "collectives");
  EXPECT_EQ(job.clocks[1].offset_ns, 0);
  ASSERT_EQ(job.traffic.size(), 1u);
  EXPECT_EQ(job.traffic[0].message_bytes, 4000);
  EXPECT_EQ(job.traffic[0].whole_calls, 4);
  EXPECT_DOUBLE_EQ(job.traffic[0].algbw_gbps.value_or(0), 80);   // 4000 bytes in 50 ns
  EXPECT_DOUBLE_EQ(job.traffic[0].busbw_gbps.value_or(0), 80);   // 2 (n - 1) / n = 1
}

TEST_F(JobTest, CollectivesOfARankKnowWaitingAndRates) {
  const std::vector<int64_t> last = {500, 500, 500, 500};
  add({.arrivals = {200, 200, 200, 200}}, last);
  add({.skew = 987'654'321, .arrivals = last}, last);
  Job job = run();
  facts_[0]->provide(std::move(job.call_timings[0]));
  const std::vector<CollectiveRow> rows = facts_[0]->get<Collectives>().rows;
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].wait_ns, 1200);
  EXPECT_FALSE(rows[0].wait_is_lower_bound);
  EXPECT_DOUBLE_EQ(rows[0].algbw_gbps.value(), 80);
  EXPECT_DOUBLE_EQ(rows[0].busbw_gbps.value(), 80);
}

TEST_F(JobTest, PartOfAGroupGivesALowerBoundAndNoRates) {
  const std::vector<int64_t> last = {500, 500, 500, 500};
  add({.arrivals = {200, 200, 200, 200}, .ranks = "[0, 1, 2]"}, last);
  add({.arrivals = last, .ranks = "[0, 1, 2]"}, last);
  for (Trace& t : traces_)
    for (Collective& c : t.collectives) c.group_size = 3;
  Job job = run();
  facts_[0]->provide(std::move(job.call_timings[0]));
  const std::vector<CollectiveRow> rows = facts_[0]->get<Collectives>().rows;
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].wait_ns, 1200);
  EXPECT_TRUE(rows[0].wait_is_lower_bound);
  EXPECT_FALSE(rows[0].algbw_gbps);
}

TEST_F(JobTest, OneRankAloneKnowsNeither) {
  const std::vector<int64_t> last = {500, 500, 500, 500};
  add({.arrivals = last}, last);
  Job job = run();
  EXPECT_TRUE(job.call_timings.empty());
  EXPECT_FALSE(facts_[0]->get<Collectives>().rows.front().wait_ns);
}

TEST_F(JobTest, SkewedClocksAreMetAtTheEndsOfCollectives) {
  const std::vector<int64_t> last = {500, 510, 490, 500};
  add({.arrivals = {200, 200, 200, 200}}, last);
  add({.skew = 987'654'321, .arrivals = last}, last);
  const Job job = run();
  EXPECT_EQ(job.clocks[1].offset_ns, -987'654'321);
  EXPECT_EQ(job.clocks[1].error_ns, 1);
  ASSERT_EQ(job.stragglers.size(), 1u);
  EXPECT_EQ(job.stragglers[0].rank, 1);
  EXPECT_EQ(job.stragglers[0].excess_ns_per_step, 300);
}

TEST_F(JobTest, BaseTimesAreAdded) {
  const std::vector<int64_t> last = {500, 500};
  add({.arrivals = {200, 200}}, last);
  add({.skew = -1'000'000, .host = "", .arrivals = last}, last);
  traces_[1].base_time_ns = 1'000'000;
  EXPECT_EQ(run().clocks[1].offset_ns, 0);
}

TEST_F(JobTest, ATraceThatLostItsBaseTimeIsNamed) {
  const std::vector<int64_t> last = {500, 500};
  add({.arrivals = {200, 200}}, last);
  add({.host = "", .arrivals = last}, last);
  traces_[0].base_time_ns = 1'700'000'000'000'000'000;
  const Job job = run();
  ASSERT_EQ(job.notes.size(), 1u);
  EXPECT_TRUE(job.notes[0].starts_with("rank 1: not in Unix time")) << job.notes[0];
}

TEST_F(JobTest, RanksOfOneHostShareAClock) {
  const std::vector<int64_t> last = {500, 500};
  add({.host = "a", .arrivals = {200, 200}, .ranks = "x"}, last);
  add({.host = "a", .arrivals = last, .ranks = "x"}, last);
  add({.skew = 70, .host = "b", .arrivals = {300, 300}, .ranks = "x"}, last);
  add({.skew = 70, .host = "b", .arrivals = {300, 300}, .ranks = "y"}, last);   // meets nobody
  const Job job = run();
  EXPECT_EQ(job.clocks[1].method, "same host");
  EXPECT_EQ(job.clocks[1].offset_ns, 0);
  EXPECT_EQ(job.clocks[2].method, "collectives");
  EXPECT_EQ(job.clocks[2].offset_ns, -70);
  EXPECT_EQ(job.clocks[3].method, "same host");
  EXPECT_EQ(job.clocks[3].offset_ns, -70);
}

TEST_F(JobTest, ClocksAreJoinedThroughOtherRanks) {
  const std::vector<int64_t> last = {500, 500, 500};
  // Rank 2 shares a group with rank 1 only.
  add({.arrivals = {200, 200, 200}, .ranks = "[0, 1]"}, last);
  TraceRows both;
  for (int i = 0; i < 3; ++i) {
    both.annotation("ProfilerStep#" + std::to_string(i), 1000 * i + 40, 1000);
    both.collective({.name = "allreduce", .ranks = "[0, 1]", .in = 1000, .out = 1000}, 1000 * i + 540, 50);
    both.collective({.name = "allreduce", .group = "2", .ranks = "[1, 2]", .in = 9, .out = 9}, 1000 * i + 640, 50, 0,
                    21);
  }
  traces_.push_back(both.finish());
  TraceRows far;
  for (int i = 0; i < 3; ++i) {
    far.annotation("ProfilerStep#" + std::to_string(i), 1000 * i - 5000, 1000);
    far.collective({.name = "allreduce", .group = "2", .ranks = "[1, 2]", .in = 9, .out = 9}, 1000 * i - 4450, 100, 0,
                   20);
  }
  traces_.push_back(far.finish());
  const Job job = run();
  EXPECT_EQ(job.clocks[1].offset_ns, -40);
  EXPECT_EQ(job.clocks[2].offset_ns, 5000);   // ends at 690 - 40 = 650 by rank 0's clock, at -4350 by its own
  EXPECT_EQ(job.clocks[2].method, "collectives");
}

TEST_F(JobTest, WaitingBesideComputeCostsNothing) {
  const std::vector<int64_t> last = {500, 500, 500};
  add({.arrivals = {200, 200, 200}}, last);
  add({.arrivals = last}, last);
  TraceRows busy;   // rank 0 again, computing through all of its waiting but 10 ns
  for (int i = 0; i < 3; ++i) {
    busy.annotation("ProfilerStep#" + std::to_string(i), 1000 * i, 1000).kernel("gemm", 1000 * i + 100, 390);
    busy.collective({.name = "allreduce", .in = 1000, .out = 1000}, 1000 * i + 200, 350);
  }
  traces_[0] = busy.finish();
  const Job job = run();
  EXPECT_TRUE(job.stragglers.empty());
  EXPECT_EQ(job.wait_ns.at(0), 30);
}

TEST_F(JobTest, OneMissingRecordShiftsNothing) {
  const std::vector<int64_t> last = {500, 500, 500, 500};
  for (const bool arguments : {true, false}) {
    traces_.clear(), facts_.clear();
    add({.arrivals = {-1, 200, 200, 200}, .arguments = arguments}, last);
    add({.arrivals = last, .arguments = arguments}, last);
    const Job job = run();
    EXPECT_EQ(job.clocks[1].offset_ns, 0);
    ASSERT_EQ(job.stragglers.size(), 1u);
    EXPECT_EQ(job.stragglers[0].excess_ns_per_step, 3 * 300 / 4);
  }
}

TEST_F(JobTest, SequenceNumbersDecideWhereTheyAreRecorded) {
  const std::vector<int64_t> last = {500, 500, 500};
  add({.arrivals = {200, 200, 200}, .sequence = {7, 8, 9}}, last);
  add({.arrivals = last, .sequence = {7, 8, 9}}, last);
  TraceRows shifted;   // the same calls, a step range later
  for (int i = 0; i < 3; ++i) {
    shifted.annotation("ProfilerStep#" + std::to_string(i + 40), 1000 * i, 1000);
    shifted.collective({.name = "allreduce", .in = 1000, .out = 1000, .sequence = 7 + i}, 1000 * i + 500, 50);
  }
  traces_[1] = shifted.finish();
  EXPECT_EQ(run().stragglers.at(0).excess_ns_per_step, 300);
}

TEST_F(JobTest, CallsThatNeverMetAreNotOneCollective) {
  // Without sequence numbers and steps, a lost record pairs each call with the next one of the other rank.
  TraceRows a, b;
  a.op("x", 0, 10), b.op("x", 0, 10);
  for (int i = 0; i < 4; ++i) a.kernel("ncclKernel_AllReduce_RING_LL_Sum_float", 1000 * i, 200, 0, 0, 20);
  for (int i = 1; i < 4; ++i) b.kernel("ncclKernel_AllReduce_RING_LL_Sum_float", 1000 * i + 100, 100, 0, 0, 20);
  a.header().host_name = b.header().host_name = "one";
  traces_.push_back(a.finish());
  traces_.push_back(b.finish());
  const Job job = run();
  EXPECT_EQ(job.wait_ns.at(0), 3 * 100);   // they are matched by when they were
}

TEST_F(JobTest, EightRanksHaveOneStragglerByTheUsualWait) {
  const std::vector<int64_t> last = {800, 800, 800};
  for (int r = 0; r < 8; ++r)
    add({.skew = 13 * r, .arrivals = r == 5 ? last : std::vector<int64_t>(3, 300 + 10 * r)}, last);
  const Job job = run();
  ASSERT_EQ(job.stragglers.size(), 1u);
  EXPECT_EQ(job.stragglers[0].rank, 5);
  EXPECT_EQ(job.stragglers[0].excess_ns_per_step, 470);   // 500 490 480 470 460 440 430
  for (int r = 0; r < 8; ++r) EXPECT_EQ(job.clocks[static_cast<size_t>(r)].offset_ns, -13 * r);
}

TEST_F(JobTest, WarmUpIsLeftOut) {
  TraceRows a, b;
  for (int i = 0; i < 4; ++i) {
    const int64_t at = i == 0 ? -9000 : 1000 * i, arrival = i == 0 ? 5000 : 310;
    for (TraceRows* t : {&a, &b}) t->annotation("ProfilerStep#" + std::to_string(i), at, i == 0 ? 10000 : 1000);
    a.collective({.name = "allreduce", .in = 8, .out = 8}, at + 300, arrival - 250);
    b.collective({.name = "allreduce", .in = 8, .out = 8}, at + arrival, 50);
  }
  traces_.push_back(a.finish());
  traces_.push_back(b.finish());
  const Job job = run();
  EXPECT_TRUE(job.stragglers.empty());       // 10 ns of 1000 in the steps that count
  EXPECT_EQ(job.wait_ns.at(0), 30);
  EXPECT_EQ(job.step_mean_ns.at(0), 1000);
}

TEST_F(JobTest, StepTimesSpread) {
  for (const int64_t step : {1000, 1100, 1200}) {
    TraceRows t;
    for (int i = 0; i < 3; ++i) t.annotation("ProfilerStep#" + std::to_string(i), i * step, step);
    traces_.push_back(t.finish());
  }
  const Job job = run();
  EXPECT_EQ(job.step_mean_ns, (std::map<int, int64_t>{{0, 1000}, {1, 1100}, {2, 1200}}));
  EXPECT_NEAR(job.step_spread_pct, 100.0 * 200 / 1100, 1e-9);
  EXPECT_TRUE(job.stragglers.empty());
  EXPECT_EQ(job.clocks[2].method, "steps");
  EXPECT_EQ(job.clocks[2].offset_ns, -200);
  EXPECT_EQ(job.clocks[2].error_ns, 200);
  ASSERT_EQ(job.notes.size(), 1u);
  EXPECT_NE(job.notes[0].find("ranks 1–2: no shared collective links the clock"), std::string::npos);
}

TEST_F(JobTest, OneRankHasNoClocks) {
  add({.arrivals = {500}}, {500});
  const Job job = run();
  EXPECT_TRUE(job.clocks.empty());
  EXPECT_TRUE(job.stragglers.empty());
  EXPECT_EQ(job.step_mean_ns.at(0), 1000);
}

TEST(Job, RanksWithOtherNumbersOfStepsAreNamed) {
  test::HandJob job;
  for (int r = 0; r < 3; ++r) job.add("a");
  for (int64_t i = 0; i < 8; ++i)
    job.call({.number = i, .step = i}, {{0, i * 1000 + 10, i * 1000 + 20}, {1, i * 1000 + 10, i * 1000 + 20},
                                        {2, i * 1000 + 10, i * 1000 + 20}});
  job.steps(8, 1000);
  const auto tells = [&] {
    return std::ranges::count(analyse_job(job.ranks).notes,
                              "rank 2: 5 steps, most others 8; what the ranks share is compared");
  };
  EXPECT_EQ(tells(), 0);
  job.ranks[2].steps.resize(5);
  EXPECT_EQ(tells(), 1);
}

}  // namespace
}  // namespace profgpu
