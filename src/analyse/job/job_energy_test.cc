#include "analyse/job/job_energy.h"

#include <gtest/gtest.h>

#include "tests/support/hand_job.h"

namespace profgpu {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

int64_t at(double seconds) { return static_cast<int64_t>(seconds * kSecond); }

// Two ranks, four steps of a second each; the second rank comes to each step's collective 0.3 s after the first, and
// both leave at the step's end.
test::HandJob two_ranks() {
  test::HandJob job;
  job.add("node"), job.add("node");
  job.steps(4, kSecond);
  for (int64_t s = 0; s < 4; ++s) {
    const double start = static_cast<double>(s);
    job.call({.number = s, .step = s}, {{0, at(start + 0.6), at(start + 1)}, {1, at(start + 0.9), at(start + 1)}});
  }
  for (RankDigest& d : job.ranks) {
    d.device = d.rank;
    for (int64_t b = 0; b < 40; ++b) d.energy.bins.push_back({b * kSecond / 10, (b + 1) * kSecond / 10});
    d.energy.states = {BinnedTime::of("compute", {{0, at(3)}}, d.energy.bins),
                       BinnedTime::of("idle", {{at(3), at(4)}}, d.energy.bins)};
    d.energy.load.tokens = 1000;
  }
  return job;
}

// The first device draws 300 W all the time, the second 500 W.
SampleLog power_of(int devices) {
  SampleLog log;
  for (int d = 0; d < devices; ++d) {
    DeviceInfo info;
    info.index = static_cast<uint32_t>(d);
    info.host = "node";
    log.devices.push_back(info);
    SampleSeries power{static_cast<uint32_t>(d), Metric::kPower, {}, {}};
    for (int64_t i = -10; i < 60; ++i)
      power.time_ns.push_back(i * kSecond / 10), power.value.push_back(d == 0 ? 300 : 500);
    log.series.push_back(power);
  }
  return log;
}

RanksEnergy energy_of(const test::HandJob& hand, const SampleLog& log, const EnergyRates& rates = {}) {
  const Job job = analyse_job(hand.ranks, log);
  std::vector<const RankDigest*> ranks;
  for (const RankDigest& d : hand.ranks) ranks.push_back(&d);
  return ranks_energy(ranks, ranks.size() > 1 ? &job : nullptr, log, rates);
}

TEST(JobEnergy, EachRankHasItsDevicesAndTheJobTheirSum) {
  const RanksEnergy energy = energy_of(two_ranks(), power_of(2), {.price_per_kwh = 1, .gco2_per_kwh = {}});
  ASSERT_EQ(energy.sections.size(), 2U);
  ASSERT_TRUE(energy.sections[0].total && energy.sections[1].total);
  EXPECT_NEAR(energy.sections[0].total->energy_j, 1200, 1e-6);
  EXPECT_NEAR(*energy.sections[1].total->per_step_j, 500, 1e-6);
  EXPECT_NEAR(*energy.sections[1].total->idle_j, 500, 1e-6);
  ASSERT_TRUE(energy.job);
  EXPECT_EQ(energy.job->known_ranks, 2);
  EXPECT_NEAR(energy.job->total.energy_j, 3200, 1e-6);
  EXPECT_NEAR(*energy.job->total.per_step_j, 800, 1e-6);
  EXPECT_NEAR(*energy.job->total.per_token_j, 0.4, 1e-9);   // of 2000 tokens
  EXPECT_NEAR(*energy.job->total.delay_product_js, 800, 1e-6);
  EXPECT_NEAR(*energy.job->total.cost(), 3200 / 3.6e6, 1e-12);
}

// The first rank waits 0.3 s in each of four steps; the last to come does not wait.
TEST(JobEnergy, WaitingForALaterRankIsTheEarlierOnes) {
  const RanksEnergy energy = energy_of(two_ranks(), power_of(2));
  const EnergyPart* waiting = energy.sections[0].part(kWaitingForRanks);
  ASSERT_NE(waiting, nullptr);
  EXPECT_EQ(waiting->total_ns, 4 * at(0.3));
  EXPECT_NEAR(waiting->amount.energy_j, 4 * 0.3 * 300, 1e-6);
  EXPECT_EQ(energy.sections[1].part(kWaitingForRanks), nullptr);
  EXPECT_NEAR(*energy.job->total.waiting_j, 360, 1e-6);
}

TEST(JobEnergy, WhoseSamplesTheyAreMayNotBeKnown) {
  test::HandJob job = two_ranks();
  for (RankDigest& d : job.ranks) d.device = 0;   // each sees its own GPU as the first
  const RanksEnergy energy = energy_of(job, power_of(2));
  EXPECT_FALSE(energy.job);
  for (const EnergySection& s : energy.sections) {
    EXPECT_FALSE(s.total);
    EXPECT_NE(s.missing.find("not known which"), std::string::npos);
  }
  job.ranks[1].device = 1;
  const RanksEnergy one = energy_of(job, power_of(1));
  ASSERT_TRUE(one.job);
  EXPECT_EQ(one.job->known_ranks, 1);
  EXPECT_EQ(one.job->ranks, 2);
}

}  // namespace
}  // namespace profgpu
