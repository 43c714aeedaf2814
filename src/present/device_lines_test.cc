#include "present/device_lines.h"

#include <gtest/gtest.h>

#include "report/text.h"

namespace profgpu {
namespace {

// As analyse/telemetry_record.h names the fields.
Record device(const std::string& label = "0") {
  Record r;
  r.add("label", label).add("name", "NVIDIA H200").add("driver_version", "580.159").add("used", true);
  r.add("n_samples", 312)
      .add("watched_ns", int64_t{62'400'000'000})
      .add("util_gpu_mean", 71.3)
      .add("util_gpu_max", 100);
  r.add("util_gpu_p5", 0).add("util_gpu_p50", 88).add("util_gpu_p95", 99).add("idle_pct", 18.2);
  r.add("sparkline", "▇▇▇▇▁▁▇▇▇▇▁▁▇▇▇▇▁▁").add("trace_column_ns", int64_t{2'000'000'000});
  r.add("mem_used_max_mb", 62669.0)
      .add("mem_used_mean_mb", 60314.0)
      .add("mem_total_mb", 143155.0)
      .add("mem_util_pct", 43.8);
  r.add("power_mean_w", 412.0).add("power_max_w", 655.0).add("energy_j", 25708.0).add("energy_method", "counter");
  r.add("energy_per_busy_second_j", 578.0).add("busy_time_est_s", 44.5);
  r.add("temp_mean_c", 61.0).add("temp_max_c", 70.0).add("sm_clock_mean_mhz", 1755.0);
  r.add("constants", Record().add("sm_clock_max_mhz", 1980).add("temperature_slowdown_c", 87));
  r.add("throttle", Table{{"reason", "words", "time_ns", "pct", "method"},
                          {{"sw_power_cap", "the power limit", int64_t{7'488'000'000}, 12.0, "counter"},
                           {"hw_thermal", "heat", int64_t{1'000'000}, 0.01, "counter"}}});
  r.add("processes", Table{{"pid", "name", "memory_peak_bytes"}, {{4711, "python train.py", int64_t{65'498'251'264}}}});
  return r;
}

std::string show(const std::vector<Record>& devices, int width,
                 const std::string& about = "python train.py, 62.4 s, exit 0") {
  return rendered(device_lines(devices, about, width), width, false);
}

TEST(DeviceLines, OneDevice) {
  EXPECT_EQ("\n" + show({device()}, 100), R"(
GPU 0  NVIDIA H200, driver 580.159                                   python train.py, 62.4 s, exit 0
  busy       71.3 %   p5 0   p50 88   p95 99   idle (<5 %) 18 % of the time
             ▇▇▇▇▁▁▇▇▇▇▁▁▇▇▇▇▁▁   one column = 2.0 s
  memory     61.2 of 139.8 GiB at most (44 %), mean 58.9 GiB
  power      412 W mean, 655 W at most; 25.7 kJ by the board's counter (578 J for each busy second)
  heat       61 °C mean, 70 at most (slows down at 87)
  clocks     SM 1,755 MHz mean of 1,980; held back 12 % of the time by the power limit
  processes  4711 python train.py   61.0 GiB at most
)");
}

TEST(DeviceLines, WhatIsNotKnownHasNoLine) {
  Record bare;
  bare.add("label", "0").add("used", true).add("n_samples", 3);
  bare.add("absent", Table{{"metric", "reason"}, {{"utilization_pct", "not on a MIG instance"}}});
  EXPECT_EQ(show({bare}, 100, "x"),
            "GPU 0" + std::string(94, ' ') + "x\n  busy       not known: not on a MIG instance\n");
  Record silent;
  silent.add("label", "1")
      .add("used", false)
      .add("n_samples", 0)
      .add("notes", "does not answer since 3.0 s into the run");
  EXPECT_NE(show({silent}, 100).find("no sample came"), std::string::npos);
  EXPECT_NE(show({silent}, 100).find("does not answer since"), std::string::npos);
  EXPECT_EQ(show({}, 100, "true, 1.00 ms, exit 0"), "true, 1.00 ms, exit 0\n");
}

TEST(DeviceLines, FitEveryWidth) {
  Record hostile = device();
  for (auto& [name, value] : hostile.fields) {
    if (name == "name") value = "\x1b[31mGPU\r\n" + std::string(300, 'w');
    if (name == "notes" || name == "energy_note") value = "\x07" + std::string(300, 'n');
    if (name == "processes")
      value = Table{{"pid", "name", "memory_peak_bytes"},
                    {{int64_t{1} << 40, "\x1b]0;x" + std::string(5000, 'p'), -1}, {7, {}, {}}}};
  }
  for (const int width : {20, 40, 80, 100, 200})
    for (const size_t count : {1u, 3u, 16u}) {
      const std::string text = show(std::vector<Record>(count, hostile), width, std::string(300, 'a'));
      EXPECT_EQ(text.find('\x1b'), std::string::npos);
      for (const std::string_view line : lines_of(text)) EXPECT_LE(display_width(line), width) << line;
    }
}

TEST(DeviceLines, ManyDevicesAreATable) {
  std::vector<Record> devices;
  for (int i = 0; i < 8; ++i) devices.push_back(device(std::to_string(i)));
  const std::string text = show(devices, 120);
  EXPECT_LE(lines_of(text).size(), 11u) << text;
  EXPECT_NE(text.find("71.3 %"), std::string::npos);
  EXPECT_NE(text.find("12 %"), std::string::npos);
}

TEST(DeviceLines, ErrorsAreSaidOfOneDeviceAndOfMany) {
  Record bad = device("3");
  bad.add("counters", Record().add("xid_errors", 2).add("ecc_uncorrected_errors", 1).add("pcie_replays", 0));
  bad.add("metrics", Table{{"metric", "last"}, {{"xid_last", 79}}});
  EXPECT_NE(show({bad}, 100).find("  errors     2 driver errors (Xid), the last 79, 1 memory error not corrected\n"),
            std::string::npos);
  std::vector<Record> many(8, device());
  EXPECT_EQ(show(many, 120).find('!'), std::string::npos);
  many[3] = bad;
  EXPECT_NE(show(many, 120).find("! GPU 3  2 driver errors (Xid), the last 79, 1 memory error not corrected\n"),
            std::string::npos);
}

}  // namespace
}  // namespace profgpu
