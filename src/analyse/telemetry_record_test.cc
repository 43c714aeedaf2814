#include "analyse/telemetry_record.h"

#include <gtest/gtest.h>

#include <cmath>

namespace profgpu {
namespace {

constexpr int64_t kStart = 1'700'000'000'000'000'000, kSecond = 1'000'000'000;

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

}  // namespace
}  // namespace profgpu
