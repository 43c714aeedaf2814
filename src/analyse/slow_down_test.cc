#include "analyse/slow_down.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

constexpr auto kCap = static_cast<double>(ClockReason::kSwPowerCap);
constexpr auto kIdleReason = static_cast<double>(ClockReason::kIdle);

SampleLog log_of(std::vector<double> clocks, std::vector<double> reasons) {
  SampleLog log;
  log.devices.resize(1);
  SampleSeries clock{0, Metric::kSmClock, {}, clocks}, reason{0, Metric::kClockEventReasons, {}, reasons};
  for (size_t i = 0; i < clocks.size(); ++i) clock.time_ns.push_back(100 * static_cast<int64_t>(i + 1));
  for (size_t i = 0; i < reasons.size(); ++i) reason.time_ns.push_back(100 * static_cast<int64_t>(i + 1));
  log.series = {clock, reason};
  return log;
}

TEST(SlowDown, IsOneLessTheClocksShareOfTheHighest) {
  SampleLog log = log_of({1500, 1200, 1500}, {0, kCap, 0});
  const auto course = ClockCourse::of(log, 0);
  ASSERT_TRUE(course);
  EXPECT_EQ(course->slow_permille(210, 290), 200);   // 1 − 1200/1500
  EXPECT_EQ(course->slow_permille(110, 190), 0);     // nothing held it back
  EXPECT_EQ(course->slow_permille(150, 250), 100);   // half of it at each
}

TEST(SlowDown, IsAgainstTheStatedMaximum) {
  SampleLog log = log_of({1500, 1500}, {kCap, kCap});
  log.devices[0].constants.emplace_back(Metric::kSmClockMax, 2000);
  EXPECT_EQ(ClockCourse::of(log, 0)->slow_permille(110, 190), 250);
}

TEST(SlowDown, LowClocksOfAnIdleDeviceAreNoReason) {
  const SampleLog log = log_of({300, 1500}, {kIdleReason, 0});
  EXPECT_EQ(ClockCourse::of(log, 0)->slow_permille(110, 190), 0);
}

TEST(SlowDown, IsUnknownOutsideOfTheSamplesAndWhereTheyAreFarApart) {
  SampleLog log = log_of({1500, 1200, 1500, 1500}, {kCap, kCap, kCap, kCap});
  log.series[0].time_ns = {100, 200, 300, 5000};
  const auto course = ClockCourse::of(log, 0);
  ASSERT_TRUE(course);
  EXPECT_FALSE(course->slow_permille(50, 150));
  EXPECT_FALSE(course->slow_permille(250, 350));   // nothing is known from 300 to 5000
  EXPECT_FALSE(course->slow_permille(6000, 7000));
  EXPECT_TRUE(course->slow_permille(210, 300));
}

TEST(SlowDown, NeedsClocksAndReasons) {
  SampleLog log = log_of({1500}, {});
  EXPECT_FALSE(ClockCourse::of(log, 0));
  log = log_of({}, {kCap});
  EXPECT_FALSE(ClockCourse::of(log, 0));
}

}  // namespace
}  // namespace profgpu
