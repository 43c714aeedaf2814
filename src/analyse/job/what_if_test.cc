#include "analyse/job/what_if.h"

#include <gtest/gtest.h>

#include <deque>

#include "analyse/job/job_lanes.h"
#include "tests/support/trace_rows.h"

namespace profgpu {
namespace {

using test::TraceRows;

/// Ranks whose steps are an input to wait for, compute, an all-reduce, and 100 µs of compute after it. Microseconds.
class WhatIfTest : public testing::Test {
 protected:
  static constexpr int64_t kTransfer = 150;
  struct Rank {
    int64_t loading = 0, compute = 400;
    int64_t skew = 0;
  };

  // All ranks go in step: a step ends 100 µs after the all-reduce, and the next begins.
  void run(const std::vector<Rank>& all, int64_t group_size, int steps = 3) {
    int64_t last = 0;
    for (const Rank& r : all) last = std::max(last, r.loading + r.compute);
    const int64_t length = last + kTransfer + 100;
    for (const Rank& r : all) {
      TraceRows t;
      for (int i = 0; i < steps; ++i) add_step(t, r, last, i * length + 1000 + r.skew, i, group_size, length);
      traces.push_back(t.finish());
    }
    for (size_t i = 0; i < traces.size(); ++i) {
      facts.push_back(std::make_unique<Facts>(traces[i], AnalysisOptions{}));
      ranks.push_back(rank_digest(static_cast<int>(i), *facts[i]));
    }
    met = matched_calls(ranks);
    clocks = align_clocks(ranks, met);
    meet = matched_collectives({ranks, met, clocks});
    lanes = join_lanes({ranks, met, clocks, meet});
  }

  static void add_step(TraceRows& t, const Rank& r, int64_t last, int64_t at, int number, int64_t size,
                       int64_t length) {
    t.annotation("ProfilerStep#" + std::to_string(number), at * 1000, length * 1000);
    if (r.loading > 0)
      t.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at * 1000, r.loading * 1000);
    const uint32_t correlation = static_cast<uint32_t>(number) * 10;
    int64_t from = (at + r.loading) * 1000;
    // The launch ends with the loading, so that nothing else is between.
    t.call("cudaLaunchKernel", from, 10, correlation + 1).kernel("gemm", from, r.compute * 1000, correlation + 1);
    t.call("cudaLaunchKernel", from + 10, 10, correlation + 2);
    t.collective({.name = "allreduce", .in = 1000, .out = 1000, .size = static_cast<int32_t>(size)},
                 (at + r.loading + r.compute) * 1000, (last + kTransfer - r.loading - r.compute) * 1000,
                 correlation + 2);
    t.call("cudaLaunchKernel", from + 20, 10, correlation + 3)
        .kernel("adam", (at + last + kTransfer) * 1000, 100'000, correlation + 3);
    t.call("cudaDeviceSynchronize", from + 30, (at + length) * 1000 - from - 30);   // the device sets the pace
  }

  [[nodiscard]] const WhatIf* ask(std::string_view change, int rank = -1, const std::vector<int>& late = {}) {
    answers = what_if(lanes, {late});
    return find_what_if(answers, change, rank);
  }
  void expect_nothing_changed() {
    const std::vector<Interval> bounds = replayed(lanes, {});
    ASSERT_EQ(bounds.size(), lanes.steps.size());
    for (size_t i = 0; i < bounds.size(); ++i) {
      EXPECT_EQ(bounds[i].start, lanes.steps[i].begin_ns) << i;
      EXPECT_EQ(bounds[i].end, lanes.steps[i].end_ns) << i;
    }
  }

  std::deque<Trace> traces;
  std::vector<std::unique_ptr<Facts>> facts;
  std::vector<RankDigest> ranks;
  MatchedCalls met;
  std::vector<RankClock> clocks;
  std::vector<MatchedCollective> meet;
  JobLanes lanes;
  std::vector<WhatIf> answers;
};

TEST_F(WhatIfTest, NothingChangedIsTheRecording) {
  run({{}, {.compute = 700, .skew = 12345}, {.loading = 100}}, 3);
  EXPECT_EQ(lanes.job_steps.size(), 3U);
  EXPECT_TRUE(lanes.ranks_without.empty());
  expect_nothing_changed();
}

TEST_F(WhatIfTest, FreeCommunicationSavesTheTransfer) {
  run({{}, {.compute = 700}}, 2);
  const WhatIf* w = ask("communication_free");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->saved_ns_per_step, kTransfer * 1000);
  EXPECT_EQ(w->step_ns, 800'000);
  EXPECT_NEAR(w->saved_pct, 100.0 * 150 / 950, 1e-9);
  EXPECT_FALSE(w->lower_bound);
}

// The missing rank may have been the last.
TEST_F(WhatIfTest, HalfAGroupGivesALowerBound) {
  run({{}, {.compute = 700}}, 3);
  const WhatIf* w = ask("communication_free");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->saved_ns_per_step, 0);
  EXPECT_TRUE(w->lower_bound);
}

TEST_F(WhatIfTest, AStragglerLikeTheOthersSavesWhatItIsLateBy) {
  run({{.compute = 390}, {.compute = 700}, {.compute = 400}, {.compute = 410}}, 4);
  const WhatIf* w = ask("straggler_median", 1, {1});
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->saved_ns_per_step, 290'000);   // rank 3 is the last then
  EXPECT_EQ(find_what_if(answers, "straggler_median", 0), nullptr);
}

TEST_F(WhatIfTest, TwoStragglersOnlySaveTogether) {
  run({{}, {.compute = 700}, {}, {.compute = 700}, {}}, 5);
  EXPECT_EQ(ask("straggler_median", 1, {1, 3})->saved_ns_per_step, 0);
  EXPECT_EQ(ask("straggler_median", 3, {1, 3})->saved_ns_per_step, 0);
  const auto both = std::find_if(answers.begin(), answers.end(), [](const WhatIf& w) { return w.ranks.size() == 2; });
  ASSERT_NE(both, answers.end());
  EXPECT_EQ(both->saved_ns_per_step, 300'000);
}

TEST_F(WhatIfTest, FreeInputSavesWhatTheLastRankLoads) {
  run({{}, {.loading = 300}}, 2);
  EXPECT_EQ(ask("input_free")->saved_ns_per_step, 300'000);
  EXPECT_EQ(ask("host_bound_free")->saved_ns_per_step, 0);
}

// Rank 1 loads, but rank 0 is the last all the same.
TEST_F(WhatIfTest, InputThatNobodyWaitsForSavesNothing) {
  run({{.compute = 700}, {.loading = 300}}, 2);
  EXPECT_EQ(ask("input_free")->saved_ns_per_step, 0);
}

TEST_F(WhatIfTest, ARankThatMeetsNobodyIsLeftOut) {
  run({{}, {.compute = 700}}, 2);
  RankDigest stranger = ranks[1];
  stranger.rank = 7;
  for (CollectiveKind& k : stranger.calls.kinds) k.group = "other";
  ranks.push_back(stranger);
  met = matched_calls(ranks);
  clocks = align_clocks(ranks, met);
  meet = matched_collectives({ranks, met, clocks});
  lanes = join_lanes({ranks, met, clocks, meet});
  EXPECT_EQ(lanes.ranks_without, std::vector<int>{7});
  EXPECT_EQ(ask("communication_free")->saved_ns_per_step, kTransfer * 1000);
}

TEST_F(WhatIfTest, ASlowLinkLikeTheOthersHasTheirTransfers) {
  run({{}, {.compute = 700}, {}}, 3);
  SlowLink link;
  link.ranks = {2};
  for (uint32_t m = 0; m < meet.size(); ++m) link.transfers.push_back({m, 60'000});
  const std::vector<int> late = {2};
  const std::vector<WhatIf> all = what_if(lanes, {late, {&link, 1}});
  EXPECT_EQ(find_what_if(all, "straggler_median", 2)->saved_ns_per_step, 60'000);
  const std::vector<WhatIf> rest = what_if_on_top(lanes, {late, {&link, 1}});
  EXPECT_EQ(find_what_if(rest, "communication_free")->saved_ns_per_step, kTransfer * 1000 - 60'000);
}

TEST_F(WhatIfTest, EvenRanksDoWhatTheirMedianDoes) {
  run({{}, {.compute = 700}, {.compute = 420}, {}}, 4);
  const std::vector<WhatIf> all = what_if(lanes, {.ranks = {}, .by_turns = true});
  EXPECT_EQ(find_what_if(all, "even_ranks")->saved_ns_per_step, 300'000);
  EXPECT_EQ(ask("even_ranks"), nullptr);
}

// 100 us of each rank's compute; of rank 1, which is late, 100 of 700.
TEST_F(WhatIfTest, LessWorkSavesWhatTheLastRankSaves) {
  run({{}, {.compute = 700}, {}}, 3);
  const auto savings_of = [&](std::vector<size_t> of_ranks) {
    OwnSavings s{"some-rule", false, std::vector<std::vector<LaneSaving>>(ranks.size())};
    for (const size_t r : of_ranks)
      for (uint32_t p = 0; p < ranks[r].lane.points.size(); ++p)
        if (ranks[r].lane.points[p].what == LanePoint::What::kArrive) s.by_rank[r].push_back({p, 100'000});
    return s;
  };
  const auto saved = [&](std::vector<size_t> of_ranks, const std::vector<int>& late) {
    const OwnSavings savings = savings_of(std::move(of_ranks));
    return find_what_if(what_if_less(lanes, {late}, {&savings, 1}), "some-rule")->saved_ns_per_step;
  };
  EXPECT_EQ(saved({0, 1, 2}, {}), 100'000);
  EXPECT_EQ(saved({0, 2}, {}), 0) << "rank 1 is the last all the same";
  EXPECT_EQ(saved({1}, {}), 100'000);
  EXPECT_EQ(saved({1}, {1}), 0) << "its lateness has a finding of its own";
  EXPECT_EQ(saved({0, 1, 2}, {1}), 57'142) << "rank 1 like the others computes 400 us, and keeps the most of it";
  EXPECT_TRUE(what_if_less(lanes, {}, {}).empty());
}

// What a straggler's own cause costs is blamed on nothing else; what all ranks do is what is left.
TEST_F(WhatIfTest, OnTopOfStragglersACauseSavesWhatIsLeft) {
  run({{.loading = 100}, {.loading = 300}, {.loading = 100}}, 3);
  const std::vector<int> late = {1};
  EXPECT_EQ(ask("input_free")->saved_ns_per_step, 300'000);
  EXPECT_EQ(ask("straggler_median", 1, late)->saved_ns_per_step, 200'000);
  const std::vector<WhatIf> rest = what_if_on_top(lanes, {late});
  EXPECT_EQ(find_what_if(rest, "input_free")->saved_ns_per_step, 100'000);
  EXPECT_EQ(find_what_if(rest, "checkpoint_free")->saved_ns_per_step, 0);
  EXPECT_TRUE(what_if_on_top(lanes, {}).empty());
}

TEST_F(WhatIfTest, AStepNeverTakesLessThanItsHost) {
  run({{}, {.compute = 700}}, 2);
  for (RankDigest& r : ranks)
    for (LaneStep& s : r.lane.steps) s.host_ns = 900'000;   // of 950
  EXPECT_EQ(ask("communication_free")->saved_ns_per_step, 50'000);
  EXPECT_EQ(ask("host_bound_free")->saved_ns_per_step, 0);
}

TEST_F(WhatIfTest, StepsThatMostRanksLackDoNotCount) {
  run({{}, {}, {.compute = 700}}, 3);
  ranks[1].steps[2].index = ranks[2].steps[2].index = 99;
  ranks[2].steps[2].index = 98;
  lanes = join_lanes({ranks, met, clocks, meet});
  EXPECT_EQ(lanes.job_steps.size(), 2U);
  expect_nothing_changed();
}

TEST_F(WhatIfTest, NumbersThatBeginAnewAreToldApartByTime) {
  run({{}, {}, {.compute = 700}}, 3, 6);
  for (RankDigest& rank : ranks)
    for (size_t i = 0; i < 6; ++i) {   // the last rank counts as the others only from the second epoch on
      const bool apart = i < 3 && rank.rank == 2;
      rank.steps[i].index = static_cast<int64_t>(apart ? i + 50 : i % 3);
      rank.steps[i].turn = static_cast<int64_t>(i / 3);
    }
  lanes = join_lanes({ranks, met, clocks, meet});
  ASSERT_EQ(lanes.job_steps.size(), 6U);
  size_t parts = 0;
  for (const JobStep& step : lanes.job_steps) {
    parts += step.parts.size();
    for (const JobStep::Part& p : step.parts) EXPECT_EQ(lanes.step(p).begin_ns, step.time.start) << step.index;
  }
  EXPECT_EQ(parts, 3U * 2 + 3U * 3);
}

TEST_F(WhatIfTest, NoStepsGiveNoAnswers) {
  run({{}, {}}, 2);
  for (RankDigest& r : ranks) {
    r.steps.clear();
    std::erase_if(r.lane.points, [](const LanePoint& p) { return p.what >= LanePoint::What::kStepEnd; });
  }
  lanes = join_lanes({ranks, met, clocks, meet});
  EXPECT_TRUE(what_if(lanes, {}).empty() && what_if_on_top(lanes, {std::vector<int>{1}}).empty());
  EXPECT_EQ(critical_path(lanes).steps, 0);
}

// Each waits for the collective that the other comes to only after its own wait.
TEST_F(WhatIfTest, ContradictionsEndAsRecorded) {
  run({{}, {}}, 2, 2);
  std::swap(ranks[1].lane.points[2].of, ranks[1].lane.points[6].of);
  std::swap(ranks[1].lane.points[3].of, ranks[1].lane.points[7].of);
  ASSERT_EQ(ranks[1].lane.points[2].what, LanePoint::What::kArrive);
  ASSERT_EQ(ranks[1].lane.points[6].what, LanePoint::What::kArrive);
  lanes = join_lanes({ranks, met, clocks, meet});
  size_t points = 0;
  for (const JobLanes::Event& e : lanes.order) points += e.rank != JobLanes::kNone;
  EXPECT_EQ(points, lanes.points.size());
  for (size_t i = 0; i < lanes.job_steps.size(); ++i) {
    const StepPath path = critical_path(lanes, i);
    int64_t sum = 0;
    for (const PathSegment& s : path.segments) sum += s.length_ns();
    EXPECT_EQ(sum, path.duration_ns);
  }
  (void)what_if(lanes, {std::vector<int>{1}});
}

TEST_F(WhatIfTest, TimesAtTheEndsOfTheirRangeDoNotOverflow) {
  run({{}, {.compute = 700}, {}}, 3);
  for (const int64_t extreme : {INT64_MIN, INT64_MAX}) {
    std::vector<RankDigest> good = ranks;
    ranks[1].steps[0].start_ns = extreme;
    ranks[1].steps[0].duration_ns = 0;
    ranks[1].lane.points[3].time_ns = extreme;
    ranks[1].lane.parts[1].ns = INT64_MAX;
    ranks[2].calls.calls[1].start_ns = ranks[2].calls.calls[1].end_ns = extreme;
    ranks[0].lane.steps[1].host_ns = INT64_MAX;
    meet = matched_collectives({ranks, met, clocks});
    lanes = join_lanes({ranks, met, clocks, meet});
    (void)what_if(lanes, {std::vector<int>{1}});
    (void)critical_path(lanes);
    ranks = good;
  }
}

TEST_F(WhatIfTest, ThePathGoesThroughTheLateRank) {
  run({{}, {.compute = 700}, {.loading = 20}}, 3);
  const StepPath path = critical_path(lanes, 1);
  EXPECT_EQ(path.duration_ns, 950'000);
  ASSERT_EQ(path.segments.size(), 3U);
  EXPECT_EQ(path.segments[0].rank, 1);
  EXPECT_EQ(path.segments[0].kind, LaneTime::kCompute);
  EXPECT_EQ(path.segments[0].length_ns(), 700'000);
  EXPECT_EQ(path.segments[1].kind, LaneTime::kCommunication);
  EXPECT_EQ(path.segments[1].length_ns(), kTransfer * 1000);
  EXPECT_EQ(path.segments[1].call, "all_reduce");
  EXPECT_EQ(path.segments[2].kind, LaneTime::kCompute);
  EXPECT_EQ(path.segments[2].length_ns(), 100'000);
  const CriticalPath all = critical_path(lanes);
  EXPECT_EQ(all.steps, 3);
  EXPECT_EQ(all.duration_ns, 3 * 950'000);
  ASSERT_EQ(all.by_kind.size(), 2U);
  EXPECT_EQ(all.by_kind[0].kind, LaneTime::kCompute);
  EXPECT_EQ(all.by_kind[0].ns, 3 * 800'000);
  EXPECT_EQ(all.by_kind[1].kind, LaneTime::kCommunication);
  EXPECT_EQ(all.by_kind[1].ns, 3 * kTransfer * 1000);
  int64_t by_rank = 0;
  for (const auto& share : all.by_rank) by_rank += share.ns;
  EXPECT_EQ(by_rank, all.duration_ns);
}

}  // namespace
}  // namespace profgpu
