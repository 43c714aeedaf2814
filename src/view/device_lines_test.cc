#include "view/device_lines.h"

#include <gtest/gtest.h>

#include "analyse/report/text.h"

namespace profgpu {
namespace {

SeriesSummary figures(std::optional<double> mean, std::optional<double> max = {}) {
  SeriesSummary s;
  s.mean = mean, s.max = max;
  return s;
}

DeviceTelemetry device(uint32_t index = 0) {
  constexpr int64_t kSecond = 1'000'000'000;
  constexpr double kMiB = 1 << 20;
  DeviceTelemetry t;
  t.device.index = index, t.device.name = "NVIDIA H200", t.device.driver_version = "580.159";
  t.ticks = 312, t.last_ns = 62'400'000'000;
  t.series[Metric::kUtilization] = figures(71.3, 100);
  t.utilization_p5 = 0, t.utilization_p50 = 88, t.utilization_p95 = 99, t.idle_pct = 18.2;
  for (int i = 0; i < 31; ++i) t.trace.push_back(i % 6 < 4 ? 87 : 0);
  t.series[Metric::kMemoryUsed] = figures(60314 * kMiB, 62669 * kMiB);
  t.constants = {
      {Metric::kMemoryTotal, 143155 * kMiB}, {Metric::kSmClockMax, 1980}, {Metric::kTemperatureSlowdown, 87}};
  t.series[Metric::kPower] = figures(412, 655);
  t.energy_j = 25708, t.energy_method = "counter", t.busy_ns = 44'500'000'000;
  t.series[Metric::kTemperature] = figures(61, 70);
  t.series[Metric::kSmClock] = figures(1755);
  t.throttle_known = true;
  t.throttle = {{"sw_power_cap", "the power limit", 0x4, 7'488'000'000, 12.0, "counter"},
                {"hw_thermal", "heat", 0x40, 1'000'000, 0.01, "counter"}};
  ProcessTelemetry process;
  process.process.pid = 4711, process.process.name = "python train.py", process.memory_peak_bytes = 65'498'251'264;
  t.processes = {process};
  t.energy_ns = t.known_ns = 62 * kSecond;
  return t;
}

std::string show(const std::vector<DeviceTelemetry>& devices, int width,
                 const std::string& about = "python train.py, 62.4 s, exit 0") {
  return rendered(device_lines(devices, about, width), width, false);
}

TEST(DeviceLines, OneDevice) {
  EXPECT_EQ("\n" + show({device()}, 100), R"(
GPU 0  NVIDIA H200, driver 580.159                                   python train.py, 62.4 s, exit 0
  busy         71.3 %   p5 0 %   p50 88 %   p95 99 %   idle (<5 %) 18 % of the time
               ▇▇▇▇▁▁▇▇▇▇▁▁▇▇▇▇▁▁▇▇▇▇▁▁▇▇▇▇▁▁▇   one column = 2.0 s
  memory       peak 61.2 of 139.8 GiB (44 %), mean 58.9 GiB
  power        mean 412 W, max 655 W; 25.7 kJ by the board's counter (578 J for each busy second)
  temperature  mean 61 °C, max 70 (throttles at 87)
  clocks       SM 1,755 MHz mean of 1,980; held back 12 % of the time by the power limit
  processes    4711 python train.py   peak 61.0 GiB
)");
}

TEST(DeviceLines, WhatIsNotKnownHasNoLine) {
  DeviceTelemetry bare;
  bare.ticks = 3;
  bare.series[Metric::kMemoryUsed] = figures({});
  bare.processes.resize(1);
  bare.processes[0].memory_peak_bytes = 1 << 20;
  bare.why_absent[Metric::kUtilization] = "not on a MIG instance";
  EXPECT_EQ(lines_of(show({bare}, 100, "x"))[0], "GPU 0" + std::string(94, ' ') + "x");
  EXPECT_EQ(lines_of(show({bare}, 100, "x"))[1], "  busy         not known: not on a MIG instance");
  EXPECT_EQ(lines_of(show({bare}, 100, "x")).size(), 3u) << "and its process";
  DeviceTelemetry silent;
  silent.device.index = 1;
  silent.notes = {"does not answer since 3.0 s into the run"};
  EXPECT_NE(show({silent}, 100).find("no sample came"), std::string::npos);
  EXPECT_NE(show({silent}, 100).find("does not answer since"), std::string::npos);
  EXPECT_EQ(show({}, 100, "true, 1.00 ms, exit 0"), "true, 1.00 ms, exit 0\n");
}

TEST(DeviceLines, FitEveryWidth) {
  DeviceTelemetry hostile = device();
  hostile.device.name = "\x1b[31mGPU\r\n" + std::string(300, 'w');
  hostile.notes = {"\x07" + std::string(300, 'n')};
  hostile.energy_note = hostile.notes.front();
  hostile.processes.front().process.name = "\x1b]0;x" + std::string(5000, 'p');
  hostile.processes.resize(2);
  for (const int width : {20, 40, 80, 100, 200})
    for (const size_t count : {1u, 3u, 16u}) {
      const std::string text = show(std::vector<DeviceTelemetry>(count, hostile), width, std::string(300, 'a'));
      EXPECT_EQ(text.find('\x1b'), std::string::npos);
      for (const std::string_view line : lines_of(text)) EXPECT_LE(display_width(line), width) << line;
    }
}

TEST(DeviceLines, ManyDevicesAreATable) {
  std::vector<DeviceTelemetry> devices;
  for (uint32_t i = 0; i < 8; ++i) devices.push_back(device(i));
  const std::string text = show(devices, 120);
  EXPECT_LE(lines_of(text).size(), 11u) << text;
  EXPECT_NE(text.find("71.3 %"), std::string::npos);
  EXPECT_NE(text.find("12 %"), std::string::npos);
}

TEST(DeviceLines, ErrorsAreSaidOfOneDeviceAndOfMany) {
  DeviceTelemetry bad = device(3);
  bad.grown = {{Metric::kXidErrors, 2}, {Metric::kEccUncorrected, 1}, {Metric::kPcieReplays, 0}};
  bad.series[Metric::kXidLast].last = 79;
  EXPECT_NE(show({bad}, 100).find("  errors       2 driver errors (Xid), the last 79, 1 memory error not corrected\n"),
            std::string::npos);
  std::vector<DeviceTelemetry> many(8, device());
  EXPECT_EQ(show(many, 120).find('!'), std::string::npos);
  many[3] = bad;
  EXPECT_NE(show(many, 120).find("! GPU 3  2 driver errors (Xid), the last 79, 1 memory error not corrected\n"),
            std::string::npos);
}

}  // namespace
}  // namespace profgpu
