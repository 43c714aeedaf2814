#include "watch/monitor/alert_watch.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

constexpr int64_t kSecond = 1'000'000'000, kBegin = 1'767'225'600 * kSecond;

/// One device that is read each second; what alerts do is written down as "12 + hot", "40 - hot".
class Watched {
 public:
  explicit Watched(std::vector<std::string> alerts, std::vector<AlertRule> shipped = {})
      : watch_(*alerts_in_force(std::move(shipped), alerts), {info()}, {0}, kSecond, "node1") {}

  /// So many seconds in which the device says this.
  Watched& say(int seconds, std::vector<std::pair<Metric, double>> values, int processes = -1) {
    for (int i = 0; i < seconds; ++i) {
      Reading reading;
      reading.time_ns = now();
      for (const auto& [metric, value] : values) reading.add(metric, value);
      reading.has_processes = processes >= 0;
      reading.processes.resize(static_cast<size_t>(std::max(processes, 0)));
      health_.good_at_ns = now();
      health_.trouble.clear();
      watch_.add(reading);
      look();
    }
    return *this;
  }
  Watched& lost(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      health_.trouble = "GPU is lost";
      look();
    }
    return *this;
  }
  std::string happened;
  std::vector<AlertNotice> notices;

 private:
  static DeviceInfo info() {
    DeviceInfo d;
    d.uuid = "GPU-1";
    d.name = "H100";
    d.constants = {{Metric::kMemoryTotal, 1000}, {Metric::kTemperatureSlowdown, 90}};
    return d;
  }
  [[nodiscard]] int64_t now() const { return kBegin + second_ * kSecond; }
  void look() {
    for (AlertNotice& n : watch_.look(now(), {health_})) {
      happened += std::to_string(second_) + (n.raised ? " + " : " - ") + n.name + "; ";
      notices.push_back(std::move(n));
    }
    ++second_;
  }

  AlertWatch watch_;
  DeviceHealth health_;
  int64_t second_ = 0;
};

using enum Metric;

TEST(AlertWatch, RaisedAfterItsTimeAndClearedAfterItsTime) {
  Watched w({"hot: temperature_c > 85 for 10s clear after 5s"});
  w.say(5, {{kTemperature, 80}})
      .say(8, {{kTemperature, 90}})
      .say(1, {{kTemperature, 80}})
      .say(11, {{kTemperature, 90}});
  EXPECT_EQ(w.happened, "24 + hot; ") << "the first eight seconds do not count";
  w.say(4, {{kTemperature, 80}}).say(1, {{kTemperature, 86}}).say(6, {{kTemperature, 80}});
  EXPECT_EQ(w.happened, "24 + hot; 35 - hot; ");
  ASSERT_EQ(w.notices.size(), 2U);
  EXPECT_EQ(w.notices[0].since_ns, kBegin + 14 * kSecond);
  EXPECT_EQ(w.notices[0].value, 90);
  EXPECT_EQ(w.notices[1].since_ns, kBegin + 14 * kSecond) << "since when it was raised";
  EXPECT_EQ(w.notices[1].value, 80);
  EXPECT_EQ(w.notices[0].host, "node1");
  EXPECT_EQ(w.notices[0].device, "0");
}

TEST(AlertWatch, BetweenTheLevelsNothingChanges) {
  Watched w({"hot: temperature_c > 85 until 80"});
  for (int i = 0; i < 10; ++i) w.say(1, {{kTemperature, 84}}).say(1, {{kTemperature, 82}});
  EXPECT_EQ(w.happened, "");
  w.say(1, {{kTemperature, 86}});
  for (int i = 0; i < 10; ++i) w.say(1, {{kTemperature, 84}}).say(1, {{kTemperature, 86}}).say(1, {{kTemperature, 81}});
  EXPECT_EQ(w.happened, "20 + hot; ");
  w.say(1, {{kTemperature, 80}});
  EXPECT_EQ(w.happened, "20 + hot; 51 - hot; ");
}

TEST(AlertWatch, WhatIsNotKnownNeitherRaisesNorClears) {
  Watched w({"hot: temperature_c > 85 until 80 for 3s", "cool: temperature_c < 20", "bare: bar1_used_bytes < 1"});
  w.say(5, {{kTemperature, 90}}).lost(200).say(2, {{kTemperature, 90}});
  EXPECT_EQ(w.happened, "3 + hot; ");
  w.say(10, {{kTemperature, 50}});
  EXPECT_EQ(w.happened, "3 + hot; 210 - hot; ");
}

TEST(AlertWatch, AllConditionsAtOnce) {
  Watched w({"held: utilization_pct < 5 and processes > 0"});
  w.say(3, {{kUtilization, 0}}).say(3, {{kUtilization, 0}}, 0).say(3, {{kUtilization, 50}}, 2);
  EXPECT_EQ(w.happened, "");
  w.say(1, {{kUtilization, 0}}, 2).say(1, {{kUtilization, 0}}, 0);
  EXPECT_EQ(w.happened, "9 + held; 10 - held; ");
}

TEST(AlertWatch, ADeviceThatIsLost) {
  Watched w({}, shipped_alerts());
  w.say(10, {{kTemperature, 50}}).lost(30).say(1, {{kTemperature, 50}}).lost(61);
  EXPECT_EQ(w.happened, "101 + device_lost; ");
  w.say(61, {{kTemperature, 50}});
  EXPECT_EQ(w.happened, "101 + device_lost; 162 - device_lost; ");
  EXPECT_EQ(w.notices[0].severity, Severity::kCritical);
}

TEST(AlertWatch, ADeviceThatNeverAnsweredIsLostOnceItIsInTrouble) {
  Watched w({"gone: up < 1"});
  EXPECT_EQ(w.lost(1).happened, "0 + gone; ");
}

TEST(AlertWatch, CriticalXidsOnly) {
  Watched w({}, shipped_alerts());
  w.say(5, {{kXidErrors, 0}});
  w.say(1, {{kXidErrors, 1}, {kXidLast, 31}}).say(5, {{kXidErrors, 1}});   // a program's own mistake
  EXPECT_EQ(w.happened, "");
  w.say(1, {{kXidErrors, 2}, {kXidLast, 79}}).lost(30);
  EXPECT_EQ(w.happened, "11 + xid_critical; ") << "also while the device is lost";
  EXPECT_EQ(w.notices[0].detail, "Xid 79");
  w.say(700, {{kXidErrors, 2}});
  EXPECT_NE(w.happened.find("- xid_critical"), std::string::npos) << w.happened;
}

TEST(AlertWatch, AnXidInTheFirstReadingCounts) {
  Watched w({}, shipped_alerts());
  EXPECT_EQ(w.say(1, {{kXidErrors, 1}, {kXidLast, 48}}).happened, "0 + xid_critical; ");
}

TEST(AlertWatch, EccErrorsAndRowRemapping) {
  Watched w({}, shipped_alerts());
  w.say(100, {{kEccUncorrected, 7}, {kRemappedRowsFailed, 0}});
  EXPECT_EQ(w.happened, "") << "old errors are no news";
  w.say(3600, {{kEccUncorrected, 8}, {kRemappedRowsFailed, 0}});
  EXPECT_EQ(w.happened, "100 + uncorrectable_ecc; ");
  w.say(100, {{kEccUncorrected, 8}, {kRemappedRowsFailed, 1}});
  EXPECT_EQ(w.happened.substr(0, 48), "100 + uncorrectable_ecc; 3700 + row_remap_failed");
  EXPECT_NE(w.happened.find("- uncorrectable_ecc"), std::string::npos) << w.happened;
}

TEST(AlertWatch, ThrottledForFiveMinutes) {
  constexpr double kPowerCap = 4, kHwThermal = 0x40;
  Watched w({}, shipped_alerts());
  w.say(600, {{kClockEventReasons, kPowerCap}});
  EXPECT_EQ(w.happened, "") << "the power limit is as it should be";
  w.say(400, {{kClockEventReasons, kHwThermal}});
  ASSERT_EQ(w.notices.size(), 1U) << w.happened;
  EXPECT_EQ(w.notices[0].name, "throttled");
  EXPECT_NEAR(static_cast<double>(w.notices[0].time_ns - kBegin) / 1e9, 600 + 30 + 300, 3);
  for (int i = 0; i < 100; ++i) w.say(2, {{kClockEventReasons, kHwThermal}}).say(3, {{kClockEventReasons, kPowerCap}});
  EXPECT_EQ(w.notices.size(), 1U) << "40 % is between the levels";
  w.say(120, {{kClockEventReasons, kPowerCap}});
  ASSERT_EQ(w.notices.size(), 2U) << w.happened;
  EXPECT_FALSE(w.notices[1].raised);
}

TEST(AlertWatch, CloseToSlowdown) {
  Watched w({}, shipped_alerts());
  w.say(300, {{kTemperature, 86}});
  EXPECT_EQ(w.happened, "");
  w.say(125, {{kTemperature, 87}}).say(100, {{kTemperature, 84}});
  EXPECT_EQ(w.happened, "420 + over_temperature; ");
  EXPECT_EQ(w.notices[0].value, 3);
}

TEST(AlertWatch, IdleWhileReserved) {
  Watched w({}, shipped_alerts());
  w.say(60 * 60, {{kUtilization, 0}}, 1);
  ASSERT_EQ(w.notices.size(), 1U) << w.happened;
  EXPECT_EQ(w.notices[0].name, "idle_while_reserved");
  EXPECT_EQ(w.notices[0].detail, "pid 0");
  EXPECT_NEAR(static_cast<double>(w.notices[0].time_ns - kBegin) / 1e9, 15 * 60 + 30 * 60, 35)
      << "once half of the mean's time is known";
  Watched free({}, shipped_alerts());
  EXPECT_EQ(free.say(60 * 60, {{kUtilization, 0}}, 0).happened, "");
}

TEST(AlertWatch, MemoryNearlyFull) {
  Watched w({}, shipped_alerts());
  w.say(605, {{kMemoryUsed, 980}}).say(70, {{kMemoryUsed, 900}});
  EXPECT_EQ(w.happened, "600 + memory_nearly_full; 665 - memory_nearly_full; ");
  EXPECT_EQ(w.notices[0].value, 98);
}

TEST(AlertWindow, MeanIsOfTheWindowOnly) {
  AlertWindow window(60 * kSecond, 10 * kSecond, false);
  for (int64_t s = 0; s < 29; ++s) window.add(kBegin + s * kSecond, 100);
  EXPECT_EQ(window.mean(kBegin + 28 * kSecond), std::nullopt) << "less than half is covered";
  for (int64_t s = 29; s < 60; ++s) window.add(kBegin + s * kSecond, 0);
  EXPECT_NEAR(window.mean(kBegin + 59 * kSecond).value(), 100.0 * 28 / 59, 0.1);
  for (int64_t s = 60; s < 150; ++s) window.add(kBegin + s * kSecond, 0);
  EXPECT_EQ(window.mean(kBegin + 149 * kSecond), 0);
  EXPECT_EQ(window.mean(kBegin + 300 * kSecond), std::nullopt) << "nothing is known of now";
}

TEST(AlertWindow, SamplesCountAsLongAsTheyHold) {
  AlertWindow window(10 * kSecond, 10 * kSecond, false);
  window.add(kBegin, 0);
  window.add(kBegin + 9 * kSecond, 0);
  window.add(kBegin + 9 * kSecond, 50);   // no newer than the last
  window.add(kBegin + 10 * kSecond, 100);
  EXPECT_NEAR(window.mean(kBegin + 10 * kSecond).value(), 10, 1e-9);
  window.add(kBegin + 40 * kSecond, 100);
  EXPECT_EQ(window.mean(kBegin + 40 * kSecond), std::nullopt) << "a gap is not filled";
}

TEST(AlertWindow, IncreaseSurvivesAResetAndForgets) {
  AlertWindow window(60 * kSecond, 10 * kSecond, false);
  EXPECT_EQ(window.increase(kBegin), std::nullopt);
  window.add(kBegin, 100);
  EXPECT_EQ(window.increase(kBegin), 0);
  window.add(kBegin + kSecond, 103);
  window.add(kBegin + 2 * kSecond, 2);   // it began anew
  EXPECT_EQ(window.increase(kBegin + 2 * kSecond), 5);
  EXPECT_EQ(window.increase(kBegin + 70 * kSecond), 0);
}

}  // namespace
}  // namespace profgpu
