#include "analyse/rank/power_course.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

SampleLog log_of(Metric metric, const std::vector<std::pair<double, double>>& samples) {
  SampleLog log;
  log.devices.resize(1);
  SampleSeries series{0, metric, {}, {}};
  for (const auto& [s, value] : samples)
    series.time_ns.push_back(static_cast<int64_t>(s * kSecond)), series.value.push_back(value);
  log.series = {series};
  return log;
}

Interval seconds(double from, double to) {
  return {static_cast<int64_t>(from * kSecond), static_cast<int64_t>(to * kSecond)};
}

TEST(PowerCourse, TheCounterSaysWhatWasDrawnBetweenItsUpdates) {
  // Read every half second, updated every second.
  const SampleLog log = log_of(Metric::kEnergy, {{0, 1000}, {0.5, 1000}, {1, 1100}, {1.5, 1100}, {2, 1400}});
  const auto course = PowerCourse::of(log, 0);
  ASSERT_TRUE(course);
  EXPECT_EQ(course->method(), "counter");
  EXPECT_EQ(course->resolution_ns(), kSecond);
  const EnergyAmount first = course->during(seconds(0, 1));
  EXPECT_NEAR(first.energy_j, 100, 1e-9);
  EXPECT_NEAR(first.error_j, 0, 1e-9);
  EXPECT_EQ(first.known_ns, kSecond);
  EXPECT_NEAR(course->during(seconds(0, 2)).energy_j, 400, 1e-9);
}

TEST(PowerCourse, WithinAnUpdateOnlyBoundsAreKnown) {
  const SampleLog log = log_of(Metric::kEnergy, {{0, 0}, {1, 100}, {2, 400}});
  const auto course = PowerCourse::of(log, 0);
  // A quarter of the second in which 300 J were drawn: all of it, or nothing.
  const EnergyAmount part = course->during(seconds(1, 1.25));
  EXPECT_NEAR(part.energy_j, 75, 1e-9);
  EXPECT_NEAR(part.error_j, 225, 1e-9);
  // With power between 50 and 350 W, half of a second of 200 J has 25 to 175 J.
  SampleLog with_power = log_of(Metric::kEnergy, {{0, 0}, {1, 100}, {2, 300}, {3, 600}});
  with_power.series.push_back(log_of(Metric::kPower, {{0, 50}, {1.5, 350}}).series.front());
  const EnergyAmount middle = PowerCourse::of(with_power, 0)->during(seconds(1, 1.5));
  EXPECT_NEAR(middle.energy_j, 100, 1e-9);
  EXPECT_NEAR(middle.error_j, 75, 1e-9);
  // Nor more than the limit allows.
  SampleLog limited = log_of(Metric::kEnergy, {{0, 0}, {1, 100}, {2, 300}});
  limited.series.push_back(log_of(Metric::kPowerLimit, {{0, 250}}).series.front());
  EXPECT_NEAR(PowerCourse::of(limited, 0)->during(seconds(1, 1.5)).error_j, 25, 1e-9);   // 75 to 125 J
}

// A device that draws 600 W and 100 W by turns of 100 ms, seen every 50 ms.
TEST(PowerCourse, TheErrorOfIntegratedPowerHoldsTheTruth) {
  std::vector<std::pair<double, double>> samples;
  for (int i = 0; i <= 80; ++i) samples.emplace_back(i * 0.05, (i / 2) % 2 == 0 ? 600 : 100);
  const auto course = PowerCourse::of(log_of(Metric::kPower, samples), 0);
  Intervals busy, idle;
  for (int i = 0; i < 20; ++i) busy.push_back(seconds(0.2 * i, 0.2 * i + 0.1)), idle.push_back(seconds(0.2 * i + 0.1, 0.2 * i + 0.2));
  const std::vector<int64_t> whole(20, kSecond / 10);
  const EnergyAmount working = course->during(busy, whole), idling = course->during(idle, whole);
  EXPECT_NEAR(working.energy_j, 1200, working.error_j);
  EXPECT_NEAR(idling.energy_j, 200, idling.error_j);
  EXPECT_LT(working.error_j, 600);
}

TEST(PowerCourse, PowerIsIntegratedWhereThereIsNoCounter) {
  const SampleLog log = log_of(Metric::kPower, {{0, 100}, {1, 200}, {2, 200}, {3, 0}});
  const auto course = PowerCourse::of(log, 0);
  ASSERT_TRUE(course);
  EXPECT_EQ(course->method(), "integrated");
  EXPECT_NEAR(course->during(seconds(0, 3)).energy_j, 150 + 200 + 100, 1e-9);
  EXPECT_NEAR(course->during(seconds(1, 2)).energy_j, 200, 1e-9);
}

TEST(PowerCourse, OnlyPartsOfBinsCount) {
  const SampleLog log = log_of(Metric::kPower, {{0, 100}, {1, 100}, {2, 100}});
  const EnergyAmount part =
      PowerCourse::of(log, 0)->during({seconds(0, 1), seconds(1, 2)}, {kSecond / 2, kSecond / 4});
  EXPECT_NEAR(part.energy_j, 75, 1e-9);
  EXPECT_EQ(part.known_ns, 3 * kSecond / 4);
}

TEST(PowerCourse, NothingIsKnownOutsideAndAcrossGapsAndResets) {
  const SampleLog reset = log_of(Metric::kEnergy, {{0, 5000}, {1, 5100}, {2, 10}, {3, 60}});
  const auto course = PowerCourse::of(reset, 0);
  EXPECT_NEAR(course->during(seconds(0, 3)).energy_j, 150, 1e-9);
  EXPECT_EQ(course->during(seconds(0, 3)).known_ns, 2 * kSecond);
  EXPECT_EQ(course->during(seconds(7, 9)).known_ns, 0);
  const SampleLog gap = log_of(Metric::kPower, {{0, 100}, {1, 100}, {2, 100}, {60, 100}, {61, 100}});
  EXPECT_EQ(PowerCourse::of(gap, 0)->during(seconds(0, 61)).known_ns, 3 * kSecond);
  EXPECT_FALSE(PowerCourse::of(log_of(Metric::kPower, {{0, 100}}), 0));
  EXPECT_FALSE(PowerCourse::of(log_of(Metric::kTemperature, {{0, 60}, {1, 61}}), 0));
  EXPECT_FALSE(PowerCourse::of(log_of(Metric::kPower, {{0, 100}, {1, 100}}), 3));
}

}  // namespace
}  // namespace profgpu
