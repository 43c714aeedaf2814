#include "top/history.h"

#include <gtest/gtest.h>

#include "top/graph.h"
#include "top/sample_view_test.h"

namespace profgpu {
namespace {

using sample::kBegin_ns;
using sample::kSecond_ns;

TEST(Curve, KeepsTheNewestPoints) {
  Curve curve;
  for (size_t i = 0; i < Curve::kMostPoints + 100; ++i) curve.add(static_cast<double>(i));
  ASSERT_EQ(curve.size(), Curve::kMostPoints);
  EXPECT_EQ(curve.back(0), static_cast<float>(Curve::kMostPoints + 99));
  EXPECT_EQ(curve.back(Curve::kMostPoints - 1), 100.0f);
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
  EXPECT_EQ(graph(history.curve(Track::kUtilization), 100, 1, 6).front().substr(6), "    ");
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
  Curve curve;
  for (const double v : {0.0, 50.0, 100.0}) curve.add(v);
  EXPECT_EQ(graph(curve, 100, 1, 4), (std::vector<std::string>{" ▁▄█"}));
  EXPECT_EQ(graph(curve, 100, 2, 3), (std::vector<std::string>{"  █", "▁██"}));
  EXPECT_EQ(graph(curve, 0, 1, 3), (std::vector<std::string>{"▁▁▁"}));
  EXPECT_TRUE(graph(curve, 100, 0, 3).empty());
}

}  // namespace
}  // namespace profgpu
