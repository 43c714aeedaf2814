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
  // A quarter of the second in which 300 J were drawn. Power is between 100 and 300 W: 25 to 75 J; and no more than
  // 300 J less the 75 J to 225 J of the rest, which only says at least 75 J.
  const EnergyAmount part = course->during(seconds(1, 1.25));
  EXPECT_NEAR(part.energy_j, 75, 1e-9);
  EXPECT_NEAR(part.error_j, 0, 1e-9);   // at 300 W, the highest seen, all the time
  const EnergyAmount low = course->during(seconds(0.5, 1));
  EXPECT_NEAR(low.energy_j, 50, 1e-9);
  EXPECT_NEAR(low.error_j, 0, 1e-9);    // at 100 W, the lowest seen
  const SampleLog three = log_of(Metric::kEnergy, {{0, 0}, {1, 100}, {2, 300}, {3, 600}});
  // Half of a second of 200 J between 100 W and 300 W: 50 to 150 J.
  const EnergyAmount middle = PowerCourse::of(three, 0)->during(seconds(1, 1.5));
  EXPECT_NEAR(middle.energy_j, 100, 1e-9);
  EXPECT_NEAR(middle.error_j, 50, 1e-9);
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
