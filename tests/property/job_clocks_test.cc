// Clocks set apart in a simulated job are found again, within the error that is stated.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/property/simulated_job.h"

namespace profgpu {
namespace {

constexpr int64_t kHourNs = 3'600'000'000'000;

sim::SimOptions small_job(int ranks, int hosts, uint64_t seed) {
  sim::SimOptions options;
  options.ranks = ranks;
  options.hosts = hosts;
  options.seed = seed;
  options.steps = 5;
  options.layers = 2;
  options.end_jitter_ns = 3'000;
  return options;
}

// What is to be added to the rank's times, for the time at which its clock is stated.
int64_t true_offset(const SimulatedJob& job, const RankClock& stated) {
  const sim::HostClock& first = job.truth.clocks.at(0).clock;
  const sim::HostClock& own = job.truth.clocks.at(static_cast<size_t>(stated.rank)).clock;
  const int64_t since_start = stated.at_ns - sim::kBaseTimeNs - sim::kJobStartNs - own.offset_ns;
  return first.offset_ns + first.drift_ns(since_start) - own.offset_ns - own.drift_ns(since_start);
}

void expect_clocks(const SimulatedJob& job, int64_t most_error_ns, const std::string& what) {
  ASSERT_EQ(job.error, "") << what;
  for (const RankClock& c : job.job.clocks) {
    ASSERT_TRUE(c.known()) << what << ", rank " << c.rank;
    ASSERT_TRUE(c.error_ns.has_value()) << what << ", rank " << c.rank;
    EXPECT_LE(*c.error_ns, most_error_ns) << what << ", rank " << c.rank;
    EXPECT_LE(std::abs(c.offset_ns - true_offset(job, c)), *c.error_ns) << what << ", rank " << c.rank;
  }
}

TEST(JobClocks, OffsetsAreFoundWithinTheirError) {
  for (const auto& [ranks, hosts] : {std::pair(2, 2), {4, 2}, {8, 4}, {6, 6}}) {
    for (const uint64_t seed : {1, 2, 3}) {
      sim::SimOptions options = small_job(ranks, hosts, seed);
      options.clock_error_ns = 40'000'000;
      options.drift_error_ppb = 30'000;
      expect_clocks(SimulatedJob(options), 20'000,
                    std::to_string(ranks) + " ranks, " + std::to_string(hosts) + " hosts, seed " + std::to_string(seed));
    }
  }
}

TEST(JobClocks, AnHourApart) {
  sim::SimOptions options = small_job(4, 2, 1);
  options.clock_offsets = {{1, kHourNs}};
  expect_clocks(SimulatedJob(options), 20'000, "an hour ahead");
  options.clock_offsets = {{1, -kHourNs}};
  expect_clocks(SimulatedJob(options), 20'000, "an hour behind");
}

TEST(JobClocks, ALateRankDoesNotMoveThem) {
  for (const char* fault : {"straggler-rank", "straggler-loading"}) {
    sim::SimOptions options = small_job(4, 2, 1);
    options.clock_error_ns = 5'000'000;
    options.slow_ranks = {2};
    options.faults = {{fault, 2.0}};
    expect_clocks(SimulatedJob(options), 20'000, fault);
  }
}

TEST(JobClocks, WithoutSequenceNumbersOrMembers) {
  sim::SimOptions options = small_job(4, 2, 1);
  options.clock_offsets = {{1, 7'000'000}};
  sim::KinetoStyle style;
  style.sequence_numbers = style.group_ranks = false;
  expect_clocks(SimulatedJob(options, style), 20'000, "no sequence numbers, no members");
  style.collective_arguments = false;
  expect_clocks(SimulatedJob(options, style), 20'000, "kernels alone");
}

TEST(JobClocks, HostsJoinedByTheGroupsOfASplitModel) {
  using enum sim::Strategy;
  for (const sim::Strategy strategy : {tp, ep, zero1, zero2, fsdp}) {
    sim::SimOptions options = small_job(8, 4, 2);
    options.strategy = strategy;
    options.group = strategy >= tp ? 2 : 0;
    options.clock_error_ns = 10'000'000;
    expect_clocks(SimulatedJob(options), 20'000, "strategy " + std::to_string(static_cast<int>(strategy)));
  }
}

// Whatever is said of a clock is true; a pipeline's stages may have nothing but pairs in common.
TEST(JobClocks, NothingIsClaimedOfAPipelineThatIsNotSo) {
  sim::SimOptions options = small_job(4, 4, 1);
  options.strategy = sim::Strategy::pp;
  options.layers = options.micro_batches = 4;
  options.clock_error_ns = 10'000'000;
  const SimulatedJob job(options);
  ASSERT_EQ(job.error, "");
  for (const RankClock& c : job.job.clocks) {
    if (!c.known() || !c.error_ns) continue;
    EXPECT_LE(std::abs(c.offset_ns - true_offset(job, c)), *c.error_ns) << "rank " << c.rank;
  }
}

}  // namespace
}  // namespace profgpu
