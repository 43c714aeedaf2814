#include "analyse/rank/telemetry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "analyse/rank/time_bins.h"
#include "trace/health.h"

namespace profgpu {
namespace {

constexpr int64_t kStart = 1'700'000'000'000'000'000;
constexpr int64_t kTick = 200'000'000;

Reading reading(int64_t i, std::vector<std::pair<Metric, double>> values) {
  Reading r;
  r.time_ns = kStart + i * kTick;
  for (auto [m, v] : values) r.add(m, v);
  return r;
}

// NumPy's percentile, population deviation.
double numpy(std::vector<double> v, double p) {
  std::sort(v.begin(), v.end());
  const double at = p * static_cast<double>(v.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, v.size() - 1);
  return v[low] + (v[high] - v[low]) * (at - static_cast<double>(low));
}

TEST(Telemetry, EvenSamplesGivePlainStatistics) {
  std::mt19937 random(7);
  for (size_t n : {1u, 2u, 3u, 50u, 1000u}) {
    TelemetryCollector c({}, kTick);
    std::vector<double> values;
    for (size_t i = 0; i < n; ++i) {
      values.push_back(static_cast<double>(random() % 101));
      c.add(reading(static_cast<int64_t>(i), {{Metric::kUtilization, values.back()}}));
    }
    const DeviceTelemetry t = c.summary();
    const SeriesSummary& s = *t.find(Metric::kUtilization);
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(n);
    double square = 0;
    for (double v : values) square += (v - mean) * (v - mean);
    EXPECT_NEAR(*s.mean, mean, 1e-9);
    if (n > 1) EXPECT_NEAR(*s.stddev, std::sqrt(square / static_cast<double>(n)), 1e-9);
    else EXPECT_FALSE(s.stddev);
    EXPECT_NEAR(*t.utilization_p5, numpy(values, 0.05), 1e-6) << n;
    EXPECT_NEAR(*t.utilization_p50, numpy(values, 0.5), 1e-6) << n;
    EXPECT_NEAR(*t.utilization_p95, numpy(values, 0.95), 1e-6) << n;
    EXPECT_NEAR(*t.utilization_p99, numpy(values, 0.99), 1e-6) << n;
    const auto idle = static_cast<double>(std::count_if(values.begin(), values.end(), [](double v) { return v < 5; }));
    EXPECT_NEAR(*t.idle_pct, 100 * idle / static_cast<double>(n), 1e-9);
    EXPECT_EQ(t.ticks, static_cast<int64_t>(n));
    EXPECT_EQ(s.samples, static_cast<int64_t>(n));
  }
}

TEST(Telemetry, ValuesCountByHowLongTheyHeld) {
  TelemetryCollector c({}, kTick);
  // 100 % for one tick, then 0 % for three, as many samples of either.
  for (int64_t i = 0; i < 400; i += 4) {
    c.add(reading(i, {{Metric::kUtilization, 100}}));
    c.add(reading(i + 1, {{Metric::kUtilization, 0}}));
  }
  const DeviceTelemetry t = c.summary();
  EXPECT_NEAR(*t.find(Metric::kUtilization)->mean, 25, 0.5);
  EXPECT_NEAR(*t.idle_pct, 75, 0.5);
}

TEST(Telemetry, WhatWasReadOnlyInTheWarmUpStillHolds) {
  TelemetryCollector c({}, kTick, 5 * kTick), nothing_after({}, kTick, 5 * kTick);
  for (int64_t i = 0; i < 10; ++i) {
    Reading r = reading(i, {{Metric::kUtilization, i < 5 ? 100.0 : 20.0}});
    if (i == 1 || i == 3) r.add(Metric::kTemperature, 40.0 + static_cast<double>(i), r.time_ns);
    if (i == 2 || i == 7) r.add(Metric::kSmClock, i == 2 ? 300 : 1800, r.time_ns);
    c.add(r);
    if (i < 5) nothing_after.add(r);
  }
  const DeviceTelemetry t = c.summary();
  ASSERT_NE(t.find(Metric::kTemperature), nullptr);
  EXPECT_EQ(t.summary(Metric::kTemperature).max, 43) << "the last one";
  EXPECT_EQ(t.summary(Metric::kSmClock).max, 1800) << "a newer one replaces it";
  EXPECT_EQ(t.summary(Metric::kSmClock).min, 1800);
  EXPECT_EQ(t.summary(Metric::kUtilization).max, 20);
  EXPECT_EQ(nothing_after.summary().find(Metric::kTemperature), nullptr) << "nothing was measured";
}

TEST(Telemetry, AnUnknownTimeIsNotHeld) {
  TelemetryCollector c({}, kTick);
  for (int64_t i = 0; i < 20; ++i) c.add(reading(i, {{Metric::kUtilization, 100}}));
  for (int64_t i = 1000; i < 1020; ++i) c.add(reading(i, {{Metric::kUtilization, 0}}));
  EXPECT_NEAR(*c.summary().find(Metric::kUtilization)->mean, 100 * 29.0 / 49, 1) << "held for ten intervals at most";
}

TEST(Telemetry, RepeatedDriverSamplesCountOnce) {
  TelemetryCollector c({}, kTick);
  for (int64_t i = 0; i < 10; ++i) {
    Reading r = reading(i, {});
    for (int64_t k = -5; k <= 0; ++k) r.add(Metric::kUtilization, 50, r.time_ns + k * kTick / 2);
    c.add(r);
  }
  const SeriesSummary s = *c.summary().find(Metric::kUtilization);
  EXPECT_EQ(s.samples, 19);   // the driver's samples from the first tick on, two a tick
  EXPECT_EQ(s.resolution_ns, kTick / 2);
}

TEST(Telemetry, EnergyByTheCounterBesideThePower) {
  TelemetryCollector c({}, kTick);
  for (int64_t i = 0; i <= 50; ++i)
    c.add(reading(i, {{Metric::kPower, 300}, {Metric::kEnergy, 5000 + 60.0 * static_cast<double>(i)}}));
  const DeviceTelemetry t = c.summary();
  EXPECT_EQ(t.energy_method, "counter");
  EXPECT_NEAR(*t.energy_j, 3000, 1e-6);
  EXPECT_NEAR(*t.energy_integrated_j, 3000, 1e-6);
  EXPECT_EQ(t.energy_note, "");
}

TEST(Telemetry, EnergyWithoutACounterIsIntegratedAndSaysSo) {
  TelemetryCollector c({}, kTick);
  for (int64_t i = 0; i <= 50; ++i) c.add(reading(i, {{Metric::kPower, 6.0 * static_cast<double>(i)}}));
  const DeviceTelemetry t = c.summary();
  EXPECT_EQ(t.energy_method, "integrated");
  EXPECT_NEAR(*t.energy_j, 1500, 1e-6);
  EXPECT_NE(t.energy_note.find("100 % of the time"), std::string::npos) << t.energy_note;
}

TEST(Telemetry, CounterAndPowerAreComparedOverOneTime) {
  TelemetryCollector steady({}, kTick), off({}, kTick);
  for (int64_t i = 0; i <= 10; ++i) {
    const auto j = 80.0 * static_cast<double>(i);
    steady.add(reading(i, {{Metric::kEnergy, j}}));
    off.add(reading(i, {{Metric::kEnergy, j}}));
    if (i > 7) continue;   // the sensor's buffer was read last then
    steady.add(reading(i, {{Metric::kPower, 400}}));
    off.add(reading(i, {{Metric::kPower, 300}}));
  }
  EXPECT_EQ(steady.summary().energy_note, "");
  EXPECT_EQ(off.summary().energy_note, "the counter and the integrated power differ by 25 %");
}

TEST(Telemetry, ALostDeviceIsBusyForNoLongerThanItWasSeen) {
  TelemetryCollector c({}, kTick);
  for (int64_t i = 0; i <= 100; ++i) {
    Reading r = reading(i, {{Metric::kXidErrors, 1}});
    if (i <= 20) r.add(Metric::kUtilization, 50), r.add(Metric::kEnergy, 20.0 * static_cast<double>(i));
    c.add(r);
  }
  const DeviceTelemetry t = c.summary();
  EXPECT_EQ(t.duration_ns(), 100 * kTick);
  EXPECT_NEAR(static_cast<double>(*t.busy_ns), 0.5 * 21 * kTick, 1);
  EXPECT_NEAR(*t.energy_per_busy_second_j(), 200, 1e-6);
}

TEST(Telemetry, ACounterThatHasNotMovedYetIsNoEnergy) {
  TelemetryCollector counter({}, kTick), both({}, kTick), long_still({}, kTick);
  for (int64_t i = 0; i <= 1; ++i) {
    counter.add(reading(i, {{Metric::kEnergy, 1000}}));
    both.add(reading(i, {{Metric::kEnergy, 1000}, {Metric::kPower, 70}}));
  }
  EXPECT_FALSE(counter.summary().energy_j);
  EXPECT_EQ(both.summary().energy_method, "integrated");
  EXPECT_NEAR(*both.summary().energy_j, 14, 1e-9);
  EXPECT_FALSE(both.summary().grown.contains(Metric::kEnergy));
  for (int64_t i = 0; i <= 10; ++i) long_still.add(reading(i, {{Metric::kEnergy, 1000}, {Metric::kPower, 0}}));
  EXPECT_EQ(long_still.summary().energy_method, "counter");
  EXPECT_EQ(long_still.summary().energy_j, 0);
}

TEST(Telemetry, AProcessHasItsMeanUtilization) {
  TelemetryCollector c({}, kTick);
  for (int64_t i = 0; i < 8; ++i) {
    Reading r = reading(i, {{Metric::kUtilization, 50}});
    r.has_processes = true;
    ProcessSample busy, silent;
    busy.pid = 7, silent.pid = 8;
    busy.utilization_pct = i % 2 ? 80.0 : 20.0;
    r.processes = {busy, silent};
    c.add(r);
  }
  const DeviceTelemetry t = c.summary();
  ASSERT_EQ(t.processes.size(), 2u);
  EXPECT_NEAR(*t.processes[0].utilization_mean_pct, 50, 1e-9);
  EXPECT_EQ(t.processes[0].utilization_max_pct, 80);
  EXPECT_FALSE(t.processes[1].utilization_mean_pct);
}

TEST(Telemetry, CountersThatGoBackLoseNothingAndInventNothing) {
  TelemetryCollector c({}, kTick);
  const double values[] = {1000, 1100, 1200, 50, 150, 149, 250};   // a reset, then a step back of one
  for (int64_t i = 0; i < 7; ++i) c.add(reading(i, {{Metric::kEnergy, values[i]}}));
  const DeviceTelemetry t = c.summary();
  EXPECT_NEAR(*t.energy_j, 200 + 50 + 100 + 100, 1e-9);
  ASSERT_FALSE(t.notes.empty());
}

TEST(Telemetry, ThrottleByCounterElseByReasonBits) {
  TelemetryCollector by_counter({}, kTick), by_bits({}, kTick);
  for (int64_t i = 0; i < 100; ++i) {
    by_counter.add(
        reading(i, {{Metric::kThrottlePower, 1e6 * static_cast<double>(i)}, {Metric::kThrottleSwThermal, 77}}));
    by_bits.add(reading(i, {{Metric::kClockEventReasons, i % 4 == 0 ? 4.0 + 1 : 1.0}}));
  }
  DeviceTelemetry t = by_counter.summary();
  ASSERT_EQ(t.throttle.size(), 1u);
  EXPECT_EQ(t.throttle[0].reason, "sw_power_cap");
  EXPECT_EQ(t.throttle[0].time_ns, 99'000'000);
  EXPECT_NEAR(t.throttle[0].pct, 100 * 99e6 / (99.0 * kTick), 1e-9);
  EXPECT_EQ(t.throttle[0].method, "counter");
  t = by_bits.summary();
  ASSERT_EQ(t.throttle.size(), 1u);
  EXPECT_NEAR(t.throttle[0].pct, 25, 1);
  EXPECT_EQ(t.throttle[0].method, "sampled");
}

TEST(Telemetry, TheTraceHasATrueTimeAxis) {
  // First half busy, whatever the number of samples.
  for (int64_t n : {3, 40, 300, 5000}) {
    TelemetryCollector c({}, kTick);
    for (int64_t i = 0; i <= n; ++i) c.add(reading(i, {{Metric::kUtilization, 2 * i < n ? 100.0 : 0.0}}));
    const DeviceTelemetry t = c.summary();
    ASSERT_EQ(t.trace.size(), 40u);
    double sum = 0;
    for (double v : t.trace) sum += std::isnan(v) ? 0 : v;
    EXPECT_NEAR(sum / 40, 50, 17.0 * 40 / static_cast<double>(std::max<int64_t>(n, 40)) + 1) << n;
    EXPECT_GT(t.trace[2], 90) << n;
    EXPECT_LT(t.trace[37], 10) << n;
  }
}

TEST(Telemetry, MemoryGrowth) {
  TelemetryCollector flat({}, kTick), growing({}, kTick);
  for (int64_t i = 0; i < 500; ++i) {
    const double saw = static_cast<double>(i % 7) * 1e8;
    flat.add(reading(i, {{Metric::kMemoryUsed, 1e9 + saw}}));
    growing.add(reading(i, {{Metric::kMemoryUsed, 1e9 + saw + 1e6 * static_cast<double>(i)}}));
  }
  EXPECT_NEAR(*flat.summary().memory_growth_bytes_per_s, 0, 1e3);
  EXPECT_NEAR(*growing.summary().memory_growth_bytes_per_s, 5e6, 5e5);
}

TEST(Telemetry, AShortRunIsNotBusyForLongerThanItWasWatched) {
  TelemetryCollector c({}, kTick);
  c.add(reading(0, {{Metric::kUtilization, 100}, {Metric::kMemoryUsed, 1e9}}));
  EXPECT_FALSE(c.summary().busy_ns) << "one reading is no time";
  Reading second;
  second.time_ns = kStart + 3'000'000;
  second.add(Metric::kUtilization, 100);
  second.add(Metric::kMemoryUsed, 2e9);
  c.add(second);
  const DeviceTelemetry t = c.summary();
  EXPECT_EQ(t.busy_ns, 3'000'000);
  EXPECT_FALSE(t.memory_growth_bytes_per_s) << "a job that starts is no leak";
}

TEST(Telemetry, WarmUpIsLeftOut) {
  TelemetryCollector c({}, kTick, 10 * kTick);
  for (int64_t i = 0; i < 20; ++i)
    c.add(reading(i, {{Metric::kUtilization, i < 10 ? 0.0 : 80.0}, {Metric::kEnergy, 10.0 * static_cast<double>(i)}}));
  const DeviceTelemetry t = c.summary();
  EXPECT_EQ(*t.find(Metric::kUtilization)->mean, 80);
  EXPECT_EQ(t.ticks, 10);
  EXPECT_EQ(*t.energy_j, 90);
  EXPECT_EQ(t.duration_ns(), 9 * kTick);
}

TEST(Telemetry, NothingIsUnknownNotZero) {
  TelemetryCollector c({}, kTick);
  DeviceTelemetry t = c.summary();
  EXPECT_FALSE(t.energy_j || t.utilization_p50 || t.idle_pct || t.busy_ns || t.memory_growth_bytes_per_s ||
               t.throttle_known);
  c.add(reading(0, {{Metric::kUtilization, std::nan("")}}));
  t = c.summary();
  EXPECT_EQ(t.find(Metric::kUtilization), nullptr);
  EXPECT_EQ(t.ticks, 1);
}

TEST(Telemetry, ALogGivesWhatTheReadingsGave) {
  SampleLog log;
  log.devices.resize(1);
  SampleSeries s;
  s.metric = Metric::kUtilization;
  TelemetryCollector c({}, kTick);
  for (int64_t i = 0; i < 100; ++i) {
    const double v = static_cast<double>(i * 37 % 101);
    c.add(reading(i, {{Metric::kUtilization, v}}));
    s.time_ns.push_back(kStart + i * kTick);
    s.value.push_back(v);
  }
  log.series.push_back(s);
  const DeviceTelemetry t = summarise(log).at(0), u = c.summary();
  EXPECT_EQ(t.ticks, 100);
  EXPECT_EQ(t.interval_ns, kTick);
  EXPECT_EQ(*t.find(Metric::kUtilization)->mean, *u.find(Metric::kUtilization)->mean);
  EXPECT_EQ(*t.utilization_p95, *u.utilization_p95);
}

TEST(Telemetry, RowsBetweenTheTicksAreNoTicks) {
  SampleLog log;
  log.devices.resize(1);
  SampleSeries often, ticks;
  often.metric = Metric::kUtilization, ticks.metric = Metric::kTemperature;
  for (int64_t i = 0; i < 100; ++i) {
    often.time_ns.push_back(kStart + i * kTick / 5), often.value.push_back(static_cast<double>(i % 10) * 10);
    if (i % 5 == 0) ticks.time_ns.push_back(kStart + i * kTick / 5), ticks.value.push_back(40);
  }
  log.series = {often, ticks};
  const DeviceTelemetry t = summarise(log).at(0);
  EXPECT_EQ(t.ticks, 20);
  EXPECT_EQ(t.interval_ns, kTick);
  EXPECT_EQ(t.find(Metric::kUtilization)->samples, 100);
}

TEST(TimeBins, WidenKeepsTheSums) {
  TimeBins bins(0, 1);
  for (int64_t t = 0; t < 100'000; t += 10) bins.add(t, t + 10, t < 50'000 ? 1 : 3);
  const auto means = bins.means(100'000, 4);
  EXPECT_NEAR(means[0], 1, 0.01);
  EXPECT_NEAR(means[3], 3, 0.01);
  EXPECT_NEAR(bins.minima(100'000, 2)[1], 3, 2.01);
  EXPECT_EQ(bins.minima(100'000, 4)[3], 3);
}

TEST(TimeBins, HoldCenturies) {
  TimeBins bins(1, 1'000'000'000);
  bins.add(1, 1'000'000'001, 1);
  bins.add(1'000'000'001, INT64_MAX, 3);
  EXPECT_NEAR(bins.means(INT64_MAX, 2)[1], 3, 0.01);
}

constexpr int64_t kSecond = 1'000'000'000;

DeviceTelemetry half_busy() {
  DeviceInfo info;
  info.index = 3;
  info.name = "NVIDIA H200";
  info.constants = {{Metric::kMemoryTotal, 1024.0 * (1 << 20)}};
  TelemetryCollector collector(info, kSecond);
  for (int i = 0; i <= 10; ++i) {
    Reading reading;
    reading.time_ns = kStart + i * kSecond;
    reading.add(Metric::kUtilization, i < 5 ? 0 : 100);
    reading.add(Metric::kMemoryUsed, 256.0 * (1 << 20));
    reading.add(Metric::kPower, 100);
    reading.add(Metric::kEnergy, 1000.0 + 110.0 * i);
    collector.add(reading);
  }
  return collector.summary();
}

TEST(TelemetryRecord, HasTheThirtyFieldsFirst) {
  DeviceTelemetry t = half_busy();
  t.wall_ns = 11 * kSecond;
  const Record r = telemetry_record(t);
  const std::vector<std::string> names = {"device",           "name",
                                          "duration_s",       "interval_s",
                                          "n_samples",        "util_gpu_mean",
                                          "util_gpu_std",     "util_gpu_min",
                                          "util_gpu_max",     "util_gpu_p5",
                                          "util_gpu_p50",     "util_gpu_p95",
                                          "util_gpu_p99",     "idle_pct",
                                          "active_pct",       "util_mem_mean",
                                          "mem_used_mean_mb", "mem_used_max_mb",
                                          "mem_total_mb",     "mem_util_pct",
                                          "power_mean_w",     "power_max_w",
                                          "energy_j",         "temp_mean_c",
                                          "temp_max_c",       "sm_clock_mean_mhz",
                                          "sm_clock_max_mhz", "busy_time_est_s",
                                          "sparkline",        "notes"};
  ASSERT_EQ(names.size(), 30u);
  ASSERT_GE(r.fields.size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(r.fields[i].first, names[i]);
  EXPECT_EQ(r.at("device").number(), 3);
  EXPECT_EQ(r.at("duration_s").number(), 11);
  EXPECT_EQ(r.at("mem_util_pct").number(), 25);
  EXPECT_EQ(r.at("mem_used_max_mb").number(), 256);
  EXPECT_EQ(r.at("energy_j").number(), 1100);
  EXPECT_EQ(*r.at("energy_method").text(), "counter");
  EXPECT_NEAR(r.at("energy_integrated_j").number(), 1000, 1e-9);
  EXPECT_NEAR(r.at("busy_time_est_s").number(), r.at("util_gpu_mean").number() / 100 * 10, 1e-9);
  EXPECT_NEAR(r.at("energy_per_busy_second_j").number(), 1100 / r.at("busy_time_est_s").number(), 1e-9);
}

TEST(TelemetryRecord, WhatIsNotKnownIsNull) {
  DeviceInfo info;
  const Record r = telemetry_record(TelemetryCollector(info, kSecond).summary());
  for (const char* field : {"name",
                            "util_gpu_mean",
                            "util_gpu_p50",
                            "idle_pct",
                            "mem_used_max_mb",
                            "mem_total_mb",
                            "power_mean_w",
                            "energy_j",
                            "temp_max_c",
                            "sm_clock_max_mhz",
                            "busy_time_est_s",
                            "sparkline",
                            "notes",
                            "energy_method",
                            "throttle",
                            "idle_gaps",
                            "pcie_tx_bytes",
                            "memory_growth_bytes_per_s",
                            "energy_per_busy_second_j",
                            "trace_column_ns"})
    EXPECT_TRUE(r.at(field).is_null()) << field;
  EXPECT_EQ(r.at("absent").table()->rows.size(), metrics().size());
}

TEST(TelemetryRecord, EveryMetricIsThereOrAbsentWithItsReason) {
  DeviceTelemetry t = half_busy();
  t.why_absent[Metric::kFanSpeed] = "no fan";
  const Record r = telemetry_record(t);
  const Table& absent = *r.at("absent").table();
  const size_t there = r.at("metrics").table()->rows.size() + r.at("counters").record()->fields.size() +
                       r.at("constants").record()->fields.size();
  EXPECT_EQ(absent.rows.size() + there, metrics().size());
  for (size_t i = 0; i < absent.rows.size(); ++i) {
    if (*absent.at(i, "metric").text() != "fan_speed_pct")
      EXPECT_TRUE(absent.at(i, "reason").is_null());
    else
      EXPECT_EQ(*absent.at(i, "reason").text(), "no fan");
  }
}

TEST(Sparkline, HasAFixedScaleAndGaps) {
  EXPECT_EQ(sparkline({0, 12.6, 50, 99, 100, std::nan(""), 120, -3}), "▁▂▅██ █▁");
  EXPECT_EQ(sparkline({95, 96}), "██") << "small changes of a high load do not look like teeth";
  EXPECT_EQ(sparkline({}), "");
}

// Both kinds of heat in the same three of ten samples.
TEST(Telemetry, ReasonsThatHoldAtOnceCountOnce) {
  TelemetryCollector sampled({}, kTick), counted({}, kTick);
  constexpr double kBoth = static_cast<double>(kHeatReasons);
  for (int64_t i = 0; i <= 100; ++i) {
    sampled.add(reading(i, {{Metric::kClockEventReasons, i % 10 < 3 ? kBoth : 0.0}}));
    const double ns = 0.3 * kTick * static_cast<double>(i);
    counted.add(reading(i, {{Metric::kThrottleSwThermal, ns}, {Metric::kThrottleHwThermal, ns / 2}}));
  }
  EXPECT_NEAR(*sampled.summary().throttled_pct(kHeatReasons), 30, 1);
  EXPECT_EQ(sampled.summary().throttled_pct(kPowerReasons), 0);
  EXPECT_NEAR(*counted.summary().throttled_pct(kHeatReasons), 30, 1);   // the larger one: they may overlap
  EXPECT_EQ(TelemetryCollector({}, kTick).summary().throttled_pct(kHeatReasons), std::nullopt);
}

}  // namespace
}  // namespace profgpu
