// Rules that samples alone can answer: hits, and silence.
#include <gtest/gtest.h>

#include <algorithm>

#include "analyse/rules/rule.h"

namespace profgpu {
namespace {

constexpr int64_t kTick = 200'000'000;

struct Course {
  double utilization = 95, memory = 20e9, growth_per_tick = 0, power_capped = 0, hot = 0;
  int64_t ticks = 300;
  int64_t idle_every = 0, idle_for = 0;   // ticks
};

DeviceTelemetry device_of(const Course& c, uint32_t index = 0) {
  DeviceInfo info;
  info.index = index;
  info.constants = {{Metric::kMemoryTotal, 80e9}, {Metric::kPowerLimitDefault, 700}, {Metric::kSmClockMax, 1980}};
  TelemetryCollector collector(info, kTick);
  for (int64_t i = 0; i < c.ticks; ++i) {
    Reading r;
    r.time_ns = 1'700'000'000'000'000'000 + i * kTick;
    const auto n = static_cast<double>(i);
    const bool idle = c.idle_every && i % c.idle_every < c.idle_for;
    r.add(Metric::kUtilization, idle ? 0 : c.utilization);
    r.add(Metric::kMemoryUsed, c.memory + c.growth_per_tick * n);
    r.add(Metric::kPower, 650);
    r.add(Metric::kPowerLimit, 700);
    r.add(Metric::kSmClock, 1755);
    r.add(Metric::kTemperature, 60);
    r.add(Metric::kThrottlePower, c.power_capped * n * kTick);
    r.add(Metric::kThrottleHwThermal, c.hot * n * kTick);
    collector.add(r);
  }
  return collector.summary();
}

std::vector<std::string> rules_for(const std::vector<DeviceTelemetry>& devices) {
  std::vector<std::string> out;
  for (const Finding& f : telemetry_findings(devices)) out.push_back(f.rule);
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> rules_of(const Course& c) { return rules_for(std::vector{device_of(c)}); }

using V = std::vector<std::string>;

TEST(TelemetryRules, AHealthyRunIsSilent) { EXPECT_EQ(rules_of({}), V{}); }

TEST(TelemetryRules, EachFaultAloneIsFoundAndNothingElse) {
  EXPECT_EQ(rules_of({.utilization = 60}), V{"low-gpu-utilization"});
  EXPECT_EQ(rules_of({.memory = 75e9}), V{"memory-near-capacity"});
  EXPECT_EQ(rules_of({.growth_per_tick = 2e6}), V{"memory-growth"});
  EXPECT_EQ(rules_of({.power_capped = 0.12}), V{"power-cap"});
  EXPECT_EQ(rules_of({.hot = 0.06}), V{"thermal-throttle"});
}

TEST(TelemetryRules, JustInsideTheThresholdsIsSilent) {
  EXPECT_EQ(rules_of({.utilization = 81, .memory = 71e9, .growth_per_tick = 1e5, .power_capped = 0.049, .hot = 0.049}),
            V{});
}

TEST(TelemetryRules, SeverityAndNumbers) {
  const auto findings = telemetry_findings({device_of({.utilization = 40})});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].severity, Severity::kCritical);
  EXPECT_NEAR(*findings[0].value, 40, 1e-9);
  EXPECT_EQ(*findings[0].threshold, 80);
  EXPECT_FALSE(findings[0].cost_ns);
  EXPECT_FALSE(findings[0].fix.empty());
}

TEST(TelemetryRules, RegularGapsAreNamed) {
  const auto findings = telemetry_findings({device_of({.idle_every = 20, .idle_for = 8})});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_NE(findings[0].why.find("regular gaps of 1.60 s, one every 4.00 s"), std::string::npos) << findings[0].why;
}

TEST(TelemetryRules, GrowthAtTheStartOnlyIsNoLeak) {
  DeviceInfo info;
  info.constants = {{Metric::kMemoryTotal, 80e9}};
  TelemetryCollector collector(info, kTick);
  for (int64_t i = 0; i < 300; ++i) {
    Reading r;
    r.time_ns = 1'700'000'000'000'000'000 + i * kTick;
    r.add(Metric::kUtilization, 99);
    r.add(Metric::kMemoryUsed, 30e9 * std::min(1.0, static_cast<double>(i) / 140));
    collector.add(r);
  }
  EXPECT_EQ(rules_for({collector.summary()}), V{});
}

TEST(TelemetryRules, UnusedDevicesAndShortRunsSayNothing) {
  EXPECT_EQ(rules_for({device_of({}), device_of({.utilization = 0, .memory = 1e6}, 1)}), V{});
  EXPECT_EQ(rules_of({.utilization = 10, .ticks = 8}), V{});
}

TEST(TelemetryRules, TheWorstDeviceIsNamed) {
  const auto findings = telemetry_findings({device_of({.utilization = 70}), device_of({.utilization = 55}, 5)});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_NE(findings[0].what.find("GPU 5"), std::string::npos);
  EXPECT_EQ(findings[0].evidence, std::vector<std::string>{"2 GPUs are below 80 %; this is the lowest"});
  EXPECT_NE(findings[0].fix.at(0).find("profgpu run --trace"), std::string::npos) << findings[0].fix[0];
}

TEST(TelemetryRules, OfALimitThatIsExceededTheWorstDeviceIsNamed) {
  const auto findings = telemetry_findings({device_of({.hot = 0.06}), device_of({.hot = 0.2}, 5)});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].evidence.front(), "2 GPUs have this; this one is the worst");
}

}  // namespace
}  // namespace profgpu
