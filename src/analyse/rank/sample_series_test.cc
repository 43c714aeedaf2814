#include "analyse/rank/sample_series.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/trace_rows.h"

namespace profgpu {
namespace {

SampleLog log_of_power() {
  SampleLog log;
  log.devices.resize(1);
  log.series = {{0, Metric::kPower, {1'000, 2'000, 3'000, 9'000}, {100.5, 200, 300, 400}},
                {0, Metric::kEnergy, {1'000, 2'000}, {1, 2}}};
  return log;
}

TEST(SampleSeries, AreTheGaugesWithinThePagesTime) {
  const SampleLog log = log_of_power();
  const auto all = sample_series({&log, 1'500, 2'000}, {{0, 4}});
  ASSERT_EQ(all.size(), 1U);   // counters are no curve
  EXPECT_EQ(all[0].metric, "power_w");
  EXPECT_EQ(all[0].title, "power");
  EXPECT_EQ(all[0].unit, "W");
  EXPECT_EQ(all[0].rank, 4);
  EXPECT_EQ(all[0].time_ns, (std::vector<int64_t>{0, 500, 1'500}));   // the one before holds until the next
  EXPECT_EQ(all[0].value, (std::vector<int64_t>{100'500, 200'000, 300'000}));
  EXPECT_EQ(all[0].scale, 0.001);
}

TEST(SampleSeries, OfManyPointsTheLeastAndTheMostAreShown) {
  SampleLog log;
  log.devices.resize(1);
  SampleSeries series{0, Metric::kSmClock, {}, {}};
  for (int64_t i = 0; i < 100'000; ++i) series.time_ns.push_back(i), series.value.push_back(1500);
  series.value[40'003] = 1980, series.value[70'009] = 210;
  log.series = {series};
  const auto all = sample_series({&log, 0, 100'000}, {});
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].title, "SM clock");
  EXPECT_LE(all[0].time_ns.size(), 4'001U);
  EXPECT_TRUE(std::ranges::is_sorted(all[0].time_ns));
  EXPECT_EQ(all[0].time_ns.front(), 0);
  const auto shown_at = [&](int64_t time_ns) {
    const auto at = std::ranges::find(all[0].time_ns, time_ns) - all[0].time_ns.begin();
    return static_cast<double>(all[0].value.at(static_cast<size_t>(at))) * all[0].scale;
  };
  EXPECT_DOUBLE_EQ(shown_at(40'003), 1980);
  EXPECT_DOUBLE_EQ(shown_at(70'009), 210);
}

TEST(SampleSeries, OfManyPointsEveryReasonIsShown) {
  SampleLog log;
  log.devices.resize(1);
  SampleSeries series{0, Metric::kClockEventReasons, {}, {}};
  for (int64_t i = 0; i < 100'000; ++i) series.time_ns.push_back(i), series.value.push_back(i == 50'001 ? 4 : 0);
  log.series = {series};
  const auto all = sample_series({&log, 0, 100'000}, {});
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(std::ranges::count(all[0].value, 4), 1);
}

Trace on_device(int32_t device, std::string_view name = {}) {
  test::TraceRows rows;
  rows.op("aten::mm", 0, 10).kernel("sgemm", 10, 10, 0, device);
  if (!name.empty()) rows.header().devices.push_back({.id = device, .name = std::string(name)});
  return rows.finish();
}

TEST(SampleSeries, DevicesAreFoundByIndexUnlessThereIsOneOnly) {
  SampleLog one, two;
  one.devices.resize(1);
  one.devices[0].index = 3;
  two.devices.resize(2);
  two.devices[1].index = 1;
  const Trace trace = on_device(0), other = on_device(1);
  const Facts facts(trace, {}), other_facts(other, {});
  const std::vector<PlacedRank> alone = {{0, &facts, 0}}, both = {{0, &facts, 0}, {1, &other_facts, 0}};
  EXPECT_EQ(sampled_device(one, alone, alone[0], 0), 0U);
  EXPECT_EQ(sampled_device(one, both, both[0], 0), std::nullopt);
  EXPECT_EQ(sampled_device(two, both, both[1], 1), 1U);
}

TEST(SampleSeries, ADeviceOfAnotherNameIsAnother) {
  SampleLog log;
  log.devices.resize(1);
  log.devices[0].name = "NVIDIA H200";
  const Trace trace = on_device(0, "NVIDIA A100");
  const Facts facts(trace, {});
  const std::vector<PlacedRank> ranks = {{0, &facts, 0}};
  EXPECT_EQ(sampled_device(log, ranks, ranks[0], 0), std::nullopt);
  log.devices[0].name = "NVIDIA A100";
  EXPECT_EQ(sampled_device(log, ranks, ranks[0], 0), 0U);
}


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
