#include "analyse/rank/energy.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "analyse/rank/steps.h"
#include "support/hand_trace.h"

namespace profgpu {
namespace {

constexpr int64_t kSecond = 1'000'000'000, kMs = 1000;   // the latter in the trace's microseconds

// Two steps of a second each: 600 ms of compute, 200 ms of a collective alone, 200 ms without any work.
HandTrace two_steps() {
  HandTrace t;
  for (int64_t i = 0; i < 2; ++i) {
    const int64_t at = 1000 * kMs * i;
    t.range("ProfilerStep#" + std::to_string(i + 5), at, at + 1000 * kMs);
    t.range("forward", at, at + 500 * kMs);
    t.kernel("gemm", at + 1, at + 2, at, at + 600 * kMs);
    t.kernel("ncclDevKernel_AllReduce_Sum_bf16", at + 3, at + 4, at + 600 * kMs, at + 800 * kMs);
  }
  return t;
}

// 400 W, but 100 W in the last fifth of a second, every 100 ms from -1 s to 4 s. In the middle of a change power is the
// mean of both, so changes are sharp: two samples a microsecond apart.
SampleLog power_log() {
  SampleLog log;
  log.devices.resize(1);
  SampleSeries power{0, Metric::kPower, {}, {}};
  for (int64_t s = -1; s < 4; ++s)
    for (int64_t tenth = 0; tenth < 10; ++tenth) {
      const int64_t at = s * kSecond + tenth * kSecond / 10;
      const double now = tenth < 8 ? 400 : 100;
      if (tenth == 0 || tenth == 8) power.time_ns.push_back(at - 1), power.value.push_back(tenth == 0 ? 100 : 400);
      power.time_ns.push_back(at), power.value.push_back(now);
    }
  log.series = {power};
  return log;
}

class EnergyTest : public testing::Test {
 protected:
  void run(HandTrace hand, const SampleLog& log, AnalysisOptions options = {}) {
    of_.emplace(hand.build(), std::move(options));
    times_ = of_->facts.get<EnergyTimes>();
    std::vector<EnergyStep> steps;
    for (const Step* s : of_->facts.get<Steps>().measured()) steps.push_back({s->index, s->interval()});
    const auto course = PowerCourse::of(log, 0), power = PowerCourse::of_power(log, 0);
    ASSERT_TRUE(course);
    section_ = energy_section({*course, times_, steps, std::nullopt, of_->facts.options().rates, power ? &*power : nullptr});
  }
  const EnergyPart* phase(std::string_view name) {
    return first_where(section_.phases, [&](const EnergyPart& p) { return p.name == name; });
  }
  std::optional<TraceFacts> of_;
  EnergyTimes times_;
  EnergySection section_;
};

TEST_F(EnergyTest, OfStepsPhasesAndWhatTheDeviceDid) {
  run(two_steps(), power_log());
  ASSERT_TRUE(section_.total);
  EXPECT_EQ(section_.total->steps, 2);
  EXPECT_NEAR(section_.total->energy_j, 680, 1e-3);          // 2 x (0.8 s x 400 W + 0.2 s x 100 W)
  EXPECT_NEAR(*section_.total->per_step_j, 340, 1e-3);
  EXPECT_NEAR(*section_.total->delay_product_js, 340, 1e-3);   // a step takes a second
  EXPECT_NEAR(section_.total->known_pct, 100, 1e-6);
  EXPECT_NEAR(section_.part("compute")->amount.energy_j, 480, 1e-3);
  EXPECT_NEAR(section_.part("exposed_communication")->amount.energy_j, 160, 1e-3);
  EXPECT_NEAR(section_.part("idle")->amount.energy_j, 40, 1e-3);
  EXPECT_NEAR(*section_.part("idle")->mean_w(), 100, 1e-3);
  EXPECT_NEAR(*section_.total->idle_j, 40, 1e-3);
  EXPECT_FALSE(section_.total->waiting_j);
  EXPECT_NEAR(phase("forward")->amount.energy_j, 400, 1e-3);
  ASSERT_EQ(section_.by_step.size(), 2U);
  EXPECT_EQ(section_.by_step[0].index, 5);
  EXPECT_NEAR(section_.by_step[1].amount.energy_j, 340, 1e-3);
  EXPECT_NEAR(section_.total->error_j, 0, 0.1);
}

TEST_F(EnergyTest, PhasesAndStatesArePartitions) {
  run(two_steps(), power_log());
  for (const std::vector<EnergyPart>* parts : {&section_.phases, &section_.parts}) {
    int64_t ns = 0;
    double energy_j = 0;
    for (const EnergyPart& p : *parts) ns += p.total_ns, energy_j += p.amount.energy_j;
    EXPECT_EQ(ns, section_.total->wall_ns);
    EXPECT_NEAR(energy_j, section_.total->energy_j, 1e-6);
  }
}

TEST_F(EnergyTest, PerTokenAndSampleAndCostsAsTheUserSays) {
  AnalysisOptions options;
  options.load = {.tokens = 4096, .samples = 8, .sequence_length = {}};
  options.rates = {.price_per_kwh = 0.5, .gco2_per_kwh = 400};
  run(two_steps(), power_log(), options);
  EXPECT_NEAR(*section_.total->per_token_j, 340.0 / 4096, 1e-6);
  EXPECT_NEAR(*section_.total->per_sample_j, 340.0 / 8, 1e-3);
  EXPECT_NEAR(*section_.total->cost(), 680 / 3.6e6 * 0.5, 1e-9);
  EXPECT_NEAR(*section_.total->co2_g(), 680 / 3.6e6 * 400, 1e-6);
  run(two_steps(), power_log());
  EXPECT_FALSE(section_.total->cost());
  EXPECT_FALSE(section_.total->co2_g());
  EXPECT_FALSE(section_.total->per_token_j);
}

TEST_F(EnergyTest, WhatSamplesDoNotCoverIsSaid) {
  SampleLog log;
  log.devices.resize(1);
  log.series = {{0, Metric::kPower, {0, kSecond / 2, kSecond}, {100, 100, 100}}};
  run(two_steps(), log);
  ASSERT_TRUE(section_.total);
  EXPECT_NEAR(section_.total->known_pct, 50, 1e-6);
  EXPECT_NEAR(section_.total->energy_j, 100, 1e-6);
  EXPECT_FALSE(section_.total->per_step_j);
  log.series.front().time_ns = {100 * kSecond, 101 * kSecond, 102 * kSecond};
  run(two_steps(), log);
  EXPECT_FALSE(section_.total);
  EXPECT_FALSE(section_.missing.empty());
}

// Both every 100 ms over the two seconds: the sensor's window may see another power than the counter adds up.
TEST_F(EnergyTest, ACounterAndPowerThatDisagreeAreNoted) {
  const auto noted = [&](double watts) {
    SampleLog log;
    log.devices.resize(1);
    SampleSeries energy{0, Metric::kEnergy, {}, {}}, power{0, Metric::kPower, {}, {}};
    for (int64_t tenth = -5; tenth <= 25; ++tenth) {
      energy.time_ns.push_back(tenth * kSecond / 10), energy.value.push_back(1000 + 30.0 * static_cast<double>(tenth));
      power.time_ns.push_back(tenth * kSecond / 10), power.value.push_back(watts);
    }
    log.series = {energy, power};
    run(two_steps(), log);
    EXPECT_EQ(section_.method, "counter");
    EXPECT_NEAR(section_.integrated_j.value_or(0), 2 * watts, 1e-6);
    return std::ranges::any_of(section_.notes, [](const std::string& note) { return note.find("disagree") != note.npos; });
  };
  EXPECT_FALSE(noted(300));
  EXPECT_FALSE(noted(312));
  EXPECT_TRUE(noted(330));
  EXPECT_TRUE(noted(200));
}

// One reading a second says nothing of what happens within it.
TEST_F(EnergyTest, ErrorsGrowWithTheTimeBetweenReadings) {
  SampleLog log;
  log.devices.resize(1);
  log.series = {{0, Metric::kEnergy, {0, kSecond, 2 * kSecond, 3 * kSecond}, {0, 340, 680, 980}}};
  run(two_steps(), log);
  EXPECT_EQ(section_.method, "counter");
  EXPECT_NEAR(section_.total->energy_j, 680, 1e-6);
  EXPECT_NEAR(section_.total->error_j, 0, 1e-6);
  const EnergyPart& idle = *section_.part("idle");
  EXPECT_NEAR(idle.amount.energy_j, 136, 1e-6);
  // Without power, all of it may have been drawn then.
  EXPECT_NEAR(idle.amount.error_j, 680 - 136, 1e-6);
  log.series.push_back({0, Metric::kPower, {0, kSecond}, {100, 400}});
  run(two_steps(), log);
  // At most 80 W x ... : at 100 W 20 J of a second's 340 J, which leaves 320 J = 400 W for the rest.
  EXPECT_NEAR(section_.part("idle")->amount.error_j, 2 * (68 - 20), 1e-6);
}

}  // namespace
}  // namespace profgpu
