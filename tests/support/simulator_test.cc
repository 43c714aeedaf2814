// The simulator has to be trusted by every test that uses it: same seed same bytes, truth independent of how it is written, and
// each fault large enough to be a fault.
#include "tests/support/simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

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

double busy_share(const Truth& t) { return static_cast<double>(t.devices[0].busy_ns) / static_cast<double>(t.devices[0].span_ns); }

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
  const std::map<std::string, double> at_least = {{"data-loading-bound", 1.3}, {"host-bound-launches", 1.2}, {"device-waits", 1.2}, {"excessive-synchronization", 1.1},
                                                  {"exposed-communication", 1.3}, {"straggler-rank", 1.08}, {"short-kernels", 1.2}, {"pageable-copies", 1.1},
                                                  {"full-precision-gemm", 1.8}, {"allocator-churn", 1.1}, {"dominant-kernel", 1.8}};
  for (const auto& [name, factor] : at_least) {
    const SimOptions o = small_run({{name, 1.0}}, find_fault(name)->min_ranks);
    const Truth t = make_truth(o, run(o), {});
    EXPECT_GT(static_cast<double>(t.actual.step_median_ns), factor * static_cast<double>(t.healthy.step_median_ns)) << name;
    EXPECT_EQ(t.without.at(0).second.measured_ns, t.healthy.measured_ns) << name;
  }
}

TEST(Simulator, RefusesWhatItCannotRun) {
  EXPECT_FALSE(simulate(small_run({{"straggler-rank", 1.0}})));
  EXPECT_FALSE(simulate(small_run({{"no-such-fault", 1.0}})));
  EXPECT_FALSE(parse_fault("data-loading-bound:x"));
  EXPECT_FALSE(parse_fault("data-loading-bound:0"));
  ASSERT_TRUE(parse_fault("data-loading-bound:0.5"));
}

}  // namespace
}  // namespace profgpu::sim
