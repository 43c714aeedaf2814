// The simulator has to be trusted by every test that uses it: same seed same bytes, truth independent of how it is
// written, and each fault large enough to be a fault.
#include "tests/support/simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

namespace profgpu::sim {
namespace {

SimOptions small_run(std::vector<FaultUse> faults = {}, int ranks = 1) {
  SimOptions o;
  o.steps = 5;
  o.layers = 4;
  o.ranks = ranks;
  o.faults = std::move(faults);
  return o;
}

SimResult run(const SimOptions& o) {
  auto result = simulate(o);
  EXPECT_TRUE(result) << result.error().message;
  return *std::move(result);
}

double busy_share(const Truth& t) {
  return static_cast<double>(t.devices[0].busy_ns) / static_cast<double>(t.devices[0].span_ns);
}

TEST(Simulator, SameSeedSameText) {
  EXPECT_EQ(kineto_text(run(small_run()).traces[0], {}), kineto_text(run(small_run()).traces[0], {}));
  SimOptions other = small_run();
  other.seed = 2;
  EXPECT_NE(kineto_text(run(small_run()).traces[0], {}), kineto_text(run(other).traces[0], {}));
}

TEST(Simulator, HealthyRunKeepsTheDeviceBusy) {
  const SimOptions o = small_run({}, 2);
  const Truth t = make_truth(o, run(o), {});
  EXPECT_GT(busy_share(t), 0.95);
  EXPECT_TRUE(t.expected_rules.empty());
  EXPECT_EQ(t.actual.measured_ns, t.healthy.measured_ns);
}

TEST(Simulator, CollectivesEndTogetherOnAllRanks) {
  const SimResult r = run(small_run({{"straggler-rank", 1.0}}, 3));
  std::map<uint32_t, std::vector<int64_t>> ends;
  for (const RankTrace& t : r.traces) {
    for (const DeviceRow& d : t.device_rows) {
      if (d.collective != kNone) ends[t.collectives[d.collective].sequence].push_back(d.start_ns + d.duration_ns);
    }
  }
  EXPECT_FALSE(ends.empty());
  for (const auto& [sequence, at] : ends) EXPECT_EQ(at, std::vector<int64_t>(3, at[0])) << sequence;
}

TEST(Simulator, ShufflingKeepsTheEvents) {
  const RankTrace t = run(small_run()).traces[0];
  KinetoStyle shuffled;
  shuffled.shuffle_seed = 3;
  std::string a = kineto_text(t, {}), b = kineto_text(t, shuffled);
  EXPECT_NE(a, b);
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  EXPECT_EQ(a, b);
}

TEST(Simulator, StreamsAreInOrder) {
  const RankTrace t = run(small_run({}, 2)).traces[0];
  std::map<int, int64_t> free;
  for (const DeviceRow& d : t.device_rows) {
    EXPECT_GE(d.start_ns, free[d.stream]);
    free[d.stream] = d.start_ns + d.duration_ns;
  }
}

TEST(Simulator, SlowingFaultsCostTime) {
  const std::map<std::string, double> at_least = {{"data-loading-bound", 1.3},    {"host-bound-launches", 1.2},
                                                  {"device-waits", 1.2},          {"excessive-synchronization", 1.1},
                                                  {"exposed-communication", 1.3}, {"straggler-rank", 1.08},
                                                  {"short-kernels", 1.2},         {"pageable-copies", 1.1},
                                                  {"full-precision-gemm", 1.8},   {"allocator-churn", 1.1},
                                                  {"dominant-kernel", 1.8}};
  for (const auto& [name, factor] : at_least) {
    const SimOptions o = small_run({{name, 1.0}}, find_fault(name)->min_ranks);
    const Truth t = make_truth(o, run(o), {});
    EXPECT_GT(static_cast<double>(t.actual.step_median_ns), factor * static_cast<double>(t.healthy.step_median_ns))
        << name;
    EXPECT_EQ(t.without.at(0).second.measured_ns, t.healthy.measured_ns) << name;
  }
}

SimOptions job(Strategy strategy, int ranks, int group, int micro_batches = 1) {
  SimOptions o = small_run({}, ranks);
  o.strategy = strategy;
  o.group = group;
  o.micro_batches = micro_batches;
  o.steps = 2;
  return o;
}

/// Ends of the collectives by group and number, with the ranks that saw them.
std::map<std::pair<std::string, uint32_t>, std::map<int, int64_t>> collective_ends(const SimResult& r) {
  std::map<std::pair<std::string, uint32_t>, std::map<int, int64_t>> ends;
  for (const RankTrace& t : r.traces)
    for (const DeviceRow& d : t.device_rows) {
      if (d.collective == kNone || t.collectives[d.collective].source >= 0 ||
          t.collectives[d.collective].destination >= 0)
        continue;
      const Collective& c = t.collectives[d.collective];
      ends[{t.groups[c.group].name, c.sequence}][t.rank] = d.start_ns + d.duration_ns;
    }
  return ends;
}

TEST(Simulator, GroupsOfASplitModelEndTogether) {
  for (const Strategy strategy : {Strategy::zero1, Strategy::zero2, Strategy::tp, Strategy::ep, Strategy::pp}) {
    const SimResult r = run(job(strategy, 8, strategy >= Strategy::tp ? 4 : 0, 2));
    std::map<std::string, std::vector<int>> members;
    for (const RankTrace& t : r.traces)
      for (const Group& g : t.groups) members[g.name] = g.ranks;
    EXPECT_EQ(members.size(), strategy >= Strategy::tp ? 7u : 1u);   // all; two models of four; four pairs of equals
    const auto ends = collective_ends(r);
    EXPECT_FALSE(ends.empty());
    for (const auto& [call, by_rank] : ends) {
      std::vector<int> ranks;
      for (const auto& [rank, end] : by_rank) {
        ranks.push_back(rank);
        EXPECT_EQ(end, by_rank.begin()->second);
      }
      EXPECT_EQ(ranks, members[call.first]) << call.first << " " << call.second;
    }
  }
}

// Every message that is sent is received, at the same time; whatever the stages and micro-batches, the pipeline gets to
// its end.
TEST(Simulator, PipelinesPassEveryMessageOn) {
  for (const auto& [stages, micro_batches] : {std::pair(2, 1), {2, 5}, {4, 1}, {4, 4}, {4, 9}}) {
    const SimResult r = run(job(Strategy::pp, stages, 0, micro_batches));
    std::map<std::tuple<int, int, bool>, std::vector<int64_t>> ends;   // from, to, seen by the receiver
    for (const RankTrace& t : r.traces)
      for (const DeviceRow& d : t.device_rows) {
        if (d.collective == kNone) continue;
        const Collective& c = t.collectives[d.collective];
        if (c.destination >= 0) ends[{t.rank, c.destination, false}].push_back(d.start_ns + d.duration_ns);
        if (c.source >= 0) ends[{c.source, t.rank, true}].push_back(d.start_ns + d.duration_ns);
      }
    EXPECT_EQ(ends.size(), static_cast<size_t>(4 * (stages - 1)));
    for (const auto& [way, at] : ends) {
      const auto& [from, to, received] = way;
      EXPECT_EQ(at.size(), static_cast<size_t>(2 * micro_batches));
      EXPECT_EQ(at, (ends[{from, to, !received}])) << from << " to " << to;
    }
  }
}

TEST(Simulator, RanksComeTheSameFromSeveralThreads) {
  const SimOptions o = job(Strategy::pp, 8, 4, 3);
  std::map<int, std::string> alone, together;
  for (const RankTrace& t : run(o).traces) alone[t.rank] = kineto_text(t, {});
  std::mutex mutex;
  ASSERT_TRUE(simulate_each(o, 3, [&](const RankTrace& t) {
    const std::lock_guard lock(mutex);
    return together[t.rank] = kineto_text(t, {}), true;
  }));
  EXPECT_EQ(alone, together);
}

TEST(Simulator, ClocksAreInTheTimesAndNowhereElse) {
  SimOptions o = job(Strategy::ddp, 4, 0);
  o.hosts = 2;
  const SimResult before = run(o);
  o.clock_offsets = {{1, 5'000'000}};
  o.clock_drifts = {{1, 100'000}};
  const SimResult after = run(o);
  EXPECT_EQ(kineto_text(before.traces[1], {}), kineto_text(after.traces[1], {}));
  const RankTrace& t = after.traces[2];
  EXPECT_EQ(t.host_name, "node-1");
  EXPECT_EQ(t.device, 0);
  EXPECT_EQ(t.device_rows.size(), before.traces[2].device_rows.size());
  EXPECT_EQ(written(t, kJobStartNs + 1'000'000'000, 10'000, {}).start_ns, kJobStartNs + 1'000'100'000);
  EXPECT_EQ(written(t, kJobStartNs, 1'000'000'000, {}).duration_ns, 1'000'100'000);
}

TEST(Simulator, AHangingRankLacksTheLastCollective) {
  SimOptions o = job(Strategy::ddp, 4, 0);
  const size_t calls = collective_ends(run(o)).size();
  o.hang_rank = 2;
  const auto ends = collective_ends(run(o));
  EXPECT_EQ(ends.size(), calls);
  EXPECT_EQ(ends.rbegin()->second.size(), 3u);
  EXPECT_FALSE(ends.rbegin()->second.contains(2));
  EXPECT_EQ(std::next(ends.rbegin())->second.size(), 4u);
}

TEST(Simulator, ARankMayHaveRecordedOtherSteps) {
  SimOptions o = job(Strategy::ddp, 2, 0);
  o.shifted_rank = 1;
  o.shifted_steps = 3;
  const SimResult r = run(o);
  ASSERT_EQ(r.traces.size(), 2u);
  ASSERT_EQ(r.traces[0].steps.size(), 2u);
  ASSERT_EQ(r.traces[1].steps.size(), 2u);
  EXPECT_EQ(r.traces[0].steps[0].number, o.first_step);
  EXPECT_EQ(r.traces[1].steps[0].number, o.first_step + 3);
  EXPECT_GT(r.traces[1].steps[0].start_ns, r.traces[0].steps[1].start_ns);
}

TEST(Simulator, SeveritiesAreFoundForAnExcess) {
  for (const char* fault :
       {"straggler-rank", "straggler-loading", "straggler-work", "straggler-host", "straggler-clocks"}) {
    SimOptions o = small_run({{fault, 1.0}}, 4);
    o.slow_ranks = {1};
    const auto severity = severity_for(o, 10);
    ASSERT_TRUE(severity) << fault;
    o.faults[0].severity = *severity;
    const Truth t = make_truth(o, run(o), {});
    EXPECT_NEAR(static_cast<double>(t.actual.step_median_ns) / static_cast<double>(t.healthy.step_median_ns), 1.10,
                0.01)
        << fault;
    ASSERT_EQ(t.stragglers.size(), 1u);
    EXPECT_EQ(t.stragglers[0].rank, 1);
  }
}

TEST(Simulator, RefusesWhatItCannotRun) {
  EXPECT_FALSE(simulate(small_run({{"straggler-rank", 1.0}})));
  EXPECT_FALSE(simulate(small_run({{"no-such-fault", 1.0}})));
  EXPECT_FALSE(simulate(job(Strategy::tp, 8, 3)));
  EXPECT_FALSE(simulate(job(Strategy::pp, 8, 8)));   // four layers
  SimOptions hosts = small_run({}, 2);
  hosts.hosts = 3;
  EXPECT_FALSE(simulate(hosts));
  SimOptions hang = small_run();
  hang.hang_rank = 0;
  EXPECT_FALSE(simulate(hang));
  EXPECT_FALSE(parse_fault("data-loading-bound:x"));
  EXPECT_FALSE(parse_fault("data-loading-bound:0"));
  ASSERT_TRUE(parse_fault("data-loading-bound:0.5"));
}

}  // namespace
}  // namespace profgpu::sim
