#include "cli/device_options.h"

#include <gtest/gtest.h>

#include "cli/log_columns.h"

namespace profgpu {
namespace {

TEST(DeviceOptions, Durations) {
  EXPECT_EQ(duration_ns("0.2"), 200'000'000);
  EXPECT_EQ(duration_ns("1s"), 1'000'000'000);
  EXPECT_EQ(duration_ns("100ms"), 100'000'000);
  EXPECT_EQ(duration_ns("250 us"), 250'000);
  EXPECT_EQ(duration_ns("5µs"), 5'000);
  EXPECT_EQ(duration_ns("7ns"), 7);
  EXPECT_EQ(duration_ns("1.5m"), 90'000'000'000);
  EXPECT_EQ(duration_ns("2min"), 120'000'000'000);
  EXPECT_EQ(duration_ns("1h"), 3'600'000'000'000);
  for (const char* bad : {"", "s", "ms", "-1", "1 2", "1x", "1e400", "nan", "inf", "1e30h", "0x10"})
    EXPECT_EQ(duration_ns(bad), std::nullopt) << bad;
}

TEST(DeviceOptions, Interval) {
  Arguments none;
  EXPECT_EQ(device_options(none, {}, 5)->interval_ns, 5);
  EXPECT_EQ(device_options(none, {}, 5)->backend, "auto");
  for (const auto& [text, ns] : {std::pair("0.1", 100'000'000), std::pair("1ms", 1'000'000)}) {
    Arguments a;
    a.add("--interval", text);
    EXPECT_EQ(device_options(a, {}, 5)->interval_ns, ns);
  }
  for (const char* bad : {"0", "-1", "0.5ms", "1us", "often", "", "25h"}) {
    Arguments a;
    a.add("--interval", bad);
    auto options = device_options(a, {}, 5);
    ASSERT_FALSE(options) << bad;
    EXPECT_NE(options.error().message.find("\"" + std::string(bad) + "\""), std::string::npos);
    EXPECT_FALSE(options.error().hint.empty());
  }
}

TEST(DeviceOptions, NoneIsANoteUnlessStrict) {
  DeviceOptions options;
  options.backend = "none";
  auto open = open_devices(options);
  ASSERT_TRUE(open);
  EXPECT_EQ(open->backend, nullptr);
  EXPECT_TRUE(open->notes.empty());   // it was asked for
  options.strict = true;
  EXPECT_FALSE(open_devices(options));
  options.strict = false;
  options.backend = "nvdia";
  EXPECT_FALSE(open_devices(options));
  options.backend = "replay:/nowhere.jsonl";
  EXPECT_FALSE(open_devices(options));
  EXPECT_EQ(tried_text({{"nvml", {"no library"}}, {"smi", {"not on the PATH\nmore"}}}),
            "nvml: no library; smi: not on the PATH");
}

TEST(LogColumns, NamesInAnyOrder) {
  auto columns = log_columns("timestamp, memory.used ,power_w,clocks.mem", TimestampStyle::kIso);
  ASSERT_TRUE(columns);
  ASSERT_EQ(columns->size(), 4u);
  EXPECT_EQ((*columns)[0].time, TimestampStyle::kIso);
  EXPECT_TRUE((*columns)[1].smi);
  EXPECT_FALSE((*columns)[2].smi);
  EXPECT_EQ((*columns)[3].what.metric->metric, Metric::kMemoryClock);
  auto unknown = log_columns("memory.usd", {});
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().hint.find("memory.used"), std::string::npos);
}

TEST(LogColumns, WhatTheTableMakesOfHostileNames) {
  DeviceInfo d;
  d.name = "\x1b[31mred\n";
  LogRows::Options options;
  options.format = LogFormat::kTable;
  options.columns = *log_columns("name,utilization_pct,pcie_tx_bytes", {});
  LogRows rows(options, {d});
  Reading r;
  r.add(Metric::kPcieTx, 3.5 * 1024 * 1024);
  const std::string row(rows.row(r));
  EXPECT_EQ(row.find('\x1b'), std::string::npos);
  EXPECT_EQ(row.find('\n'), row.size() - 1);
  EXPECT_NE(row.find("3.50 MiB"), std::string::npos);
  EXPECT_NE(row.find(" - "), std::string::npos);   // utilization is absent
}

TEST(LogColumns, WhatHasNothingNewIsWhatItWasAndTheRowSaysHowOld) {
  LogRows::Options options;
  options.columns = *log_columns("utilization_pct,temperature.gpu,age_s", {});
  options.queried = true;
  LogRows rows(options, {DeviceInfo{}});
  Reading r;
  r.time_ns = 5'000'000'000;
  r.add(Metric::kUtilization, 60);
  r.add(Metric::kTemperature, 41);
  EXPECT_EQ(rows.row(r), "60,41,0.000\n");
  r.clear();
  r.time_ns += 250'000'000;
  r.add(Metric::kUtilization, 70);
  EXPECT_EQ(rows.row(r), "70,41,0.250\n");
}

}  // namespace

}  // namespace profgpu
