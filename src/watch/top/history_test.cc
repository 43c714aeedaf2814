#include "watch/top/history.h"

#include <gtest/gtest.h>

#include "watch/top/chart.h"
#include "watch/top/sample_view_test.h"

namespace profgpu {
namespace {

using sample::kBegin_ns;
using sample::kSecond_ns;

TEST(Curve, WhatIsNotKnownYetIsCounted) {
  Curve curve;
  for (int i = 0; i < 3; ++i) curve.add(std::nan(""));
  EXPECT_EQ(curve.size(), 3u);
  EXPECT_FALSE(curve.latest());
  EXPECT_TRUE(std::isnan(curve.back(2)));
  curve.add(7);
  ASSERT_EQ(curve.size(), 4u);
  EXPECT_EQ(curve.latest(), 7);
  EXPECT_TRUE(std::isnan(curve.back(3)));
  Curve late;
  for (size_t i = 0; i < 2 * Curve::kMaxPoints; ++i) late.add(std::nan(""));
  late.add(1), late.add(2);
  EXPECT_EQ(late.size(), Curve::kMaxPoints);
  EXPECT_EQ(late.back(1), 1.0f);
  EXPECT_TRUE(std::isnan(late.back(Curve::kMaxPoints - 1)));
}

TEST(Curve, KeepsTheNewestPoints) {
  Curve curve;
  for (size_t i = 0; i < Curve::kMaxPoints + 100; ++i) curve.add(static_cast<double>(i));
  ASSERT_EQ(curve.size(), Curve::kMaxPoints);
  EXPECT_EQ(curve.back(0), static_cast<float>(Curve::kMaxPoints + 99));
  EXPECT_EQ(curve.back(Curve::kMaxPoints - 1), 100.0f);
}

TEST(DeviceHistory, CountersBecomeRates) {
  DeviceHistory history;
  for (int64_t s = 0; s < 3; ++s) history.take(sample::view(2, s).devices[1], 0, kSecond_ns);
  EXPECT_NEAR(*history.latest(Track::kPcieRx), 11.8e9, 1e6);
  EXPECT_NEAR(*history.latest(Track::kHeldByHeat), 62, 0.1);
  EXPECT_EQ(history.latest(Track::kHeldByPower), 0);
  EXPECT_FALSE(history.latest(Track::kLinkRx));   // never said
}

TEST(DeviceHistory, ACounterThatIsReadInTurnsKeepsItsRateAndOneThatGoesBackHasNone) {
  DeviceHistory history;
  LiveDevice device = sample::view(1, 0).devices[0];
  const auto rx = static_cast<size_t>(Metric::kPcieRx);
  const auto at = [&](int64_t second, double value, bool read) {
    device.time_ns = kBegin_ns + second * kSecond_ns;
    if (read) device.values[rx] = value, device.read_ns[rx] = device.time_ns;
    history.take(device, 0, kSecond_ns);
  };
  at(1, 0, true);
  at(5, 4000, true);
  EXPECT_EQ(history.latest(Track::kPcieRx), 1000);
  at(6, 0, false);
  EXPECT_EQ(history.latest(Track::kPcieRx), 1000);
  at(7, 10, true);   // the driver was loaded anew
  EXPECT_FALSE(history.latest(Track::kPcieRx));
}

TEST(DeviceHistory, WhatIsHeldIsTakenFromReasonsWhereThereAreNoCounters) {
  DeviceHistory history;
  LiveDevice device = sample::view(1, 0).devices[0];
  device.values = {};
  device.values[static_cast<size_t>(Metric::kClockEventReasons)] = 4;
  history.take(device, 0, kSecond_ns);
  EXPECT_EQ(history.latest(Track::kHeldByPower), 100);
  EXPECT_EQ(history.latest(Track::kHeldByHeat), 0);
}

TEST(DeviceHistory, MeansNeedSomeTime) {
  DeviceHistory history;
  for (int64_t s = 0; s < 10; ++s) history.take(sample::view(1, s).devices[0], 0, kSecond_ns);
  EXPECT_FALSE(history.mean(Track::kTemperature, 60 * kSecond_ns));
  for (int64_t s = 10; s < 40; ++s) history.take(sample::view(1, s).devices[0], 0, kSecond_ns);
  EXPECT_EQ(history.mean(Track::kTemperature, 60 * kSecond_ns), 61);
}

TEST(DeviceHistory, SilenceLeavesAGap) {
  DeviceHistory history;
  for (int64_t s = 28; s < 34; ++s) {
    const LiveView view = sample::view(4, s);
    history.take(view.devices[3], view.time_ns, kSecond_ns);
    history.take(view.devices[3], view.time_ns, kSecond_ns);   // the same view again adds nothing
  }
  EXPECT_EQ(history.curve(Track::kUtilization).size(), 6u);
  EXPECT_FALSE(history.latest(Track::kUtilization));
  EXPECT_EQ(graph(history.columns(Track::kUtilization, kSecond_ns, 6), 100).substr(6), "    ");
}

// A device that was read at these times, in tenths of a second, and said this.
DeviceHistory read_at(std::initializer_list<std::pair<int64_t, double>> readings, int64_t interval_ns) {
  DeviceHistory history;
  LiveDevice device = sample::view(1, 0).devices[0];
  for (const auto& [tenths, pct] : readings) {
    device.time_ns = kBegin_ns + tenths * kSecond_ns / 10;
    device.values[static_cast<size_t>(Metric::kUtilization)] = pct;
    history.take(device, 0, interval_ns);
  }
  return history;
}

TEST(DeviceHistory, MeansAreOverTimeAndNotOverReadings) {
  const DeviceHistory history = read_at({{0, 0}, {100, 0}, {101, 100}, {102, 100}, {103, 100}}, kSecond_ns);
  EXPECT_NEAR(*history.mean(Track::kUtilization, 3 * kSecond_ns), 10, 0.01);
}

TEST(DeviceHistory, WhatNobodyLookedAtIsNotKnown) {
  const DeviceHistory history = read_at({{0, 50}, {10, 50}, {310, 50}}, kSecond_ns);
  EXPECT_FALSE(history.mean(Track::kUtilization, 30 * kSecond_ns));
  EXPECT_EQ(graph(history.columns(Track::kUtilization, kSecond_ns, 32), 100),
            "▄▄" + std::string(29, ' ') + "▄");
}

TEST(DeviceHistory, TheTimeBeforeAShorterIntervalIsKnown) {
  DeviceHistory history;
  LiveDevice device = sample::view(1, 0).devices[0];
  for (const auto& [second, interval_ns] :
       {std::pair{10, 10 * kSecond_ns}, {20, 10 * kSecond_ns}, {26, kSecond_ns / 10}}) {
    device.time_ns = kBegin_ns + second * kSecond_ns;
    history.take(device, 0, interval_ns);
  }
  EXPECT_EQ(graph(history.columns(Track::kMemory, kSecond_ns, 26), 1).find(' '), std::string::npos);
}

std::string drawn(const Curve& curve, const Curve& seconds, int64_t width_ns, int cells) {
  return graph(columns(curve, seconds, width_ns, cells), 100);
}

TEST(Columns, AreStretchesOfTimeWhateverTheReadingsDistance) {
  Curve curve, seconds;
  const auto add = [&](double value, double s) { curve.add(value), seconds.add(s); };
  add(100, 1);
  add(50, 1);
  for (int i = 0; i < 10; ++i) add(i < 5 ? 0 : 100, 0.1);   // from here on ten times a second
  EXPECT_EQ(drawn(curve, seconds, kSecond_ns, 4), " █▄▄");
  EXPECT_EQ(drawn(curve, seconds, kSecond_ns / 10, 24), "████▄▄▄▄▄▄▄▄▄▄▁▁▁▁▁█████");
}

TEST(Columns, OfWhichLittleIsKnownAreBlank) {
  Curve curve, seconds;
  const auto add = [&](double value, double s) { curve.add(value), seconds.add(s); };
  add(100, 1.6);
  add(std::nan(""), 0.9);
  add(100, 0.8);
  EXPECT_EQ(drawn(curve, seconds, kSecond_ns, 4), " █ █");   // 0.3 s are known of each that is blank
  EXPECT_EQ(columns(Curve(), Curve(), kSecond_ns, 0).size(), 0u);
}

TEST(Histories, ProcessesThatLeaveAreForgotten) {
  Histories histories;
  LiveView view = sample::view(1, 0);
  histories.take(view, kSecond_ns);
  ASSERT_TRUE(histories.process({0, 902}));
  EXPECT_EQ(histories.process({0, 902})->utilization.latest(), 3);
  view = sample::view(1, 1);
  view.devices[0].processes.pop_back();
  histories.take(view, kSecond_ns);
  EXPECT_FALSE(histories.process({0, 902}));
}

TEST(Graph, FillsFromBelowWithTheNewestOnTheRight) {
  const std::vector<float> columns = {std::nanf(""), 0, 50, 100};
  EXPECT_EQ(graph(columns, 100), " ▁▄█");
  EXPECT_EQ(graph(columns, 0), " ▁▁▁");
  EXPECT_EQ(largest(columns), 100);
}

}  // namespace
}  // namespace profgpu
