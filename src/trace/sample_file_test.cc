#include "trace/sample_file.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/clock.h"
#include "tests/support/test_folder.h"

namespace profgpu {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kT0 = 1'800'000'000'000'000'000;
constexpr int64_t kStep = 200'000'000;

DeviceInfo h100(uint32_t index) {
  DeviceInfo d;
  d.index = index;
  d.vendor = "NVIDIA";
  d.name = "NVIDIA H100, \"80GB\"";
  d.uuid = "GPU-0000-" + std::to_string(index);
  d.pci_bus_id = "00000000:0" + std::to_string(index) + ":00.0";
  d.driver_version = "590.48.01";
  d.numa_node = 1;
  d.constants = {{Metric::kMemoryTotal, 85520809984.0}, {Metric::kSmClockMax, 1980}};
  return d;
}

class SampleFileTest : public testing::Test {
 protected:
  void SetUp() override { ::setenv("TZ", "UTC", 1), ::tzset(); }
  [[nodiscard]] std::string write(const std::string& text, const std::string& name = "log") const {
    return folder_.write(name, text);
  }
  Result<SampleLog> read(const std::string& text) { return read_sample_file(write(text), issues_); }
  SampleLog good(const std::string& text) {
    auto log = read(text);
    EXPECT_TRUE(log) << log.error().message;
    return log ? *std::move(log) : SampleLog{};
  }
  std::string error(const std::string& text) {
    auto log = read(text);
    EXPECT_FALSE(log);
    return log ? "" : log.error().message;
  }

  TestFolder folder_;
  SampleFileIssues issues_;
};

const SampleSeries* find(const SampleLog& log, uint32_t device, Metric metric) {
  for (const SampleSeries& s : log.series)
    if (s.device == device && s.metric == metric) return &s;
  return nullptr;
}

std::vector<double> values(const SampleLog& log, uint32_t device, Metric metric) {
  const SampleSeries* s = find(log, device, metric);
  return s ? s->value : std::vector<double>{};
}

Reading reading(uint32_t device, int64_t time, double utilization) {
  Reading r;
  r.device = device;
  r.time_ns = time;
  r.add(Metric::kUtilization, utilization);
  r.add(Metric::kMemoryUsed, 80e9);
  r.add(Metric::kEnergy, 1234.5678);
  return r;
}

// nvidia-smi dmon -o DT -s pucmt, a second device that keeps silent of its memory's temperature, and the header again.
TEST_F(SampleFileTest, NvidiaSmiDmonsTable) {
  const std::string header =
      "#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem   mclk   pclk     fb   ccpm  rxpci \n"
      "#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %    MHz    MHz     MB     MB   MB/s \n";
  const std::string row = " 20270115   08:00:0";
  const SampleLog log = good(header + row + "1      0    310     61     70     97     40   2619   1980   2048      0    12 \n" +
                             row + "1      1     68     40      -      0      0   2619    210      4      0     0 \n" +
                             header + row + "2      0    320     61     70    100     41   2619   1980   2048      0    13 \n");
  EXPECT_EQ(issues_.damaged_rows, 0);
  EXPECT_EQ(issues_.unknown, std::vector<std::string>{"ccpm"});
  ASSERT_EQ(log.devices.size(), 2u);
  const auto values = [&](Metric m, uint32_t device) {
    const SampleSeries* found = log.find(device, m);
    std::vector<double> all;
    for (size_t i = 0; found != nullptr && i < found->value.size(); ++i) all.push_back(found->value[i]);
    return all;
  };
  EXPECT_EQ(values(Metric::kPower, 0), (std::vector<double>{310, 320}));
  EXPECT_EQ(values(Metric::kUtilization, 0), (std::vector<double>{97, 100}));
  EXPECT_EQ(values(Metric::kMemoryUsed, 0), (std::vector<double>{2147483648.0, 2147483648.0}));
  EXPECT_EQ(values(Metric::kPcieRxRate, 0), (std::vector<double>{12e6, 13e6}));
  EXPECT_EQ(values(Metric::kMemoryTemperature, 1), std::vector<double>());
  EXPECT_EQ(log.find(0, Metric::kPower)->time_ns, (std::vector<int64_t>{kT0 + 1'000'000'000, kT0 + 2'000'000'000}));

  EXPECT_TRUE(looks_like_samples(header));
  EXPECT_FALSE(looks_like_samples("#SBATCH --gpus 4\n#SBATCH --mem 4\n"));
  const auto timeless = read("# gpu    pwr\n# Idx      W\n    0     68\n");
  ASSERT_FALSE(timeless);
  EXPECT_NE(timeless.error().hint.find("nvidia-smi dmon -o DT"), std::string::npos) << timeless.error().hint;
  // --format csv
  EXPECT_EQ(good("#Date, Time, gpu, pwr\n#YYYYMMDD, HH:MM:SS, Idx, W\n20270115, 08:00:01, 0, 310\n").ticks, 1);
}

TEST_F(SampleFileTest, WhatNoDeviceCanBeIsDamage) {
  const std::string row = "{\"time_ns\":1800000000000000000,\"device\":";
  std::string text = row + "0,\"utilization_pct\":50,\"temperature_margin_c\":-3,\"fan_speed_pct\":104}\n";
  for (const char* bad : {"-1,\"utilization_pct\":5}", "4294967297,\"utilization_pct\":5}",
                          "0,\"utilization_pct\":250}", "0,\"utilization_pct\":-50}", "0,\"power_w\":-1}"})
    text += row + bad + "\n";
  const SampleLog log = good(text);
  EXPECT_EQ(issues_.damaged_rows, 5);
  EXPECT_EQ(issues_.first_damaged_line, 2);
  ASSERT_EQ(log.devices.size(), 1u);
  for (const SampleSeries& s : log.series) EXPECT_EQ(s.value.size(), 1u) << metric_info(s.metric).name;
  EXPECT_EQ(log.series.size(), 3u);
  (void)good("time_ns,device,utilization_pct\n1800000000000000000,-1,5\n1800000000000000000,0,5\n");
  EXPECT_EQ(issues_.damaged_rows, 1);
}

TEST_F(SampleFileTest, TextsAreValidUtf8) {
  const SampleLog log = good("timestamp, index, name, power.draw [W], od\xC0 [W]\n"
                             "2026/11/23 05:36:00.108, \xC0/ 1, Test\xFF GPU, 200.50 W, 1 W\n");
  ASSERT_EQ(log.devices.size(), 1u);
  EXPECT_EQ(log.devices[0].name, "Test\uFFFD GPU");
  EXPECT_EQ(issues_.unknown, std::vector<std::string>{"od\uFFFD [W]"});
}

TEST_F(SampleFileTest, WhatADriverKeptHasRowsOfItsOwnTimes) {
  Reading r;
  r.time_ns = kT0 + kStep;
  for (int64_t i = 0; i < 3; ++i) r.add(Metric::kUtilization, i < 2 ? 0 : 100, kT0 + i * kStep / 4);
  r.add(Metric::kPower, 300, kT0 + kStep / 4);
  r.add(Metric::kTemperature, 40, kT0 + kStep / 2);   // a driver's own clock
  for (const auto format : {SampleFormat::kJsonLines, SampleFormat::kCsv}) {
    SampleWriter writer(format, {h100(0)}, {Metric::kUtilization, Metric::kPower, Metric::kTemperature});
    const SampleLog log = good(writer.header() + std::string(writer.rows(r)));
    ASSERT_EQ(log.series.size(), 3u);
    EXPECT_EQ(log.ticks, 4);
    const SampleSeries& utilization = log.series[0];
    EXPECT_EQ(utilization.time_ns, (std::vector{kT0, kT0 + kStep / 4, kT0 + kStep / 2}));
    EXPECT_EQ(utilization.value, (std::vector{0.0, 0.0, 100.0}));
    for (const SampleSeries& s : log.series)
      EXPECT_TRUE(s.metric != Metric::kTemperature || s.time_ns == std::vector{r.time_ns});
  }
}

TEST_F(SampleFileTest, WhatIsWrittenAsJsonLinesReadsBack) {
  const std::vector<DeviceInfo> devices = {h100(0), h100(1)};
  SampleWriter writer(SampleFormat::kJsonLines, devices, {});
  std::string text = writer.header();
  EXPECT_EQ(text, "");
  for (int i = 0; i < 3; ++i)
    for (uint32_t d : {1u, 0u}) {
      Reading r = reading(d, kT0 + i * kStep, 10.5 * i);
      r.has_processes = i != 1;
      if (i == 0) r.processes.push_back({4711, 'C', int64_t{1} << 35, 55.5, {}, {}, {}, "python \"x\"\n", {}});
      text += writer.row(r);
    }
  text += writer.mark(kT0 + kStep, "warm\u00e9");
  const SampleLog log = good(text);
  EXPECT_EQ(issues_.damaged_rows, 0);
  EXPECT_FALSE(issues_.torn);
  ASSERT_EQ(log.devices.size(), 2u);
  for (uint32_t d : {0u, 1u}) {
    const DeviceInfo &was = devices[d], &is = log.devices[d];
    EXPECT_EQ(is.index, was.index);
    EXPECT_EQ(is.vendor, was.vendor);
    EXPECT_EQ(is.name, was.name);
    EXPECT_EQ(is.uuid, was.uuid);
    EXPECT_EQ(is.pci_bus_id, was.pci_bus_id);
    EXPECT_EQ(is.driver_version, was.driver_version);
    EXPECT_EQ(is.numa_node, was.numa_node);
    EXPECT_EQ(is.constants, was.constants);
    EXPECT_EQ(values(log, d, Metric::kUtilization), (std::vector<double>{0, 10.5, 21}));
    EXPECT_EQ(values(log, d, Metric::kMemoryUsed), (std::vector<double>{80e9, 80e9, 80e9}));
    EXPECT_EQ(values(log, d, Metric::kEnergy).back(), 1234.5678);
  }
  ASSERT_EQ(log.processes.size(), 2u);
  EXPECT_EQ(log.processes[1].device, 1u);
  EXPECT_EQ(log.processes[0].process.name, "python \"x\"\n");
  EXPECT_EQ(log.processes[0].process.memory_bytes, int64_t{1} << 35);
  EXPECT_EQ(log.processes[0].process.utilization_pct, 55.5);
  EXPECT_EQ(log.processes[0].process.encoder_pct, std::nullopt);
  ASSERT_EQ(log.process_ticks.size(), 4u);
  EXPECT_EQ(log.process_ticks[1].time_ns, kT0 + 2 * kStep);
  ASSERT_EQ(log.marks.size(), 1u);
  EXPECT_EQ(log.marks[0].name, "warm\u00e9");
  EXPECT_EQ(log.first_ns, kT0);
  EXPECT_EQ(log.last_ns, kT0 + 2 * kStep);
  EXPECT_EQ(log.ticks, 6);
}

TEST_F(SampleFileTest, OriginsOfProcessesReadBack) {
  SampleWriter writer(SampleFormat::kJsonLines, {h100(0)}, {});
  ProcessOrigin origin;
  origin.user = "al \"the\" ice";
  static_cast<Placement&>(origin) = {"docker", "3f2a00000001", "1b2c3d4e-0000", "815", "batch"};
  origin.rank = 3;
  std::string text;
  for (int64_t tick = 0; tick < 3; ++tick) {
    Reading r = reading(0, kT0 + tick * kStep, 50);
    r.has_processes = true;
    if (tick == 2) origin.user = "bob", origin.world_size = 8;   // the number was given anew
    r.processes.emplace_back().pid = 4711;
    r.processes.back().origin = std::make_shared<const ProcessOrigin>(origin);
    r.processes.emplace_back().pid = 4712;
    text += writer.row(r);
  }
  EXPECT_EQ(text.find("world_size"), text.rfind("world_size")) << "what is not known is left out";
  const SampleLog log = good(text);
  ASSERT_EQ(log.processes.size(), 6u);
  ASSERT_TRUE(log.processes[0].process.origin && log.processes[4].process.origin);
  EXPECT_EQ(*log.processes[4].process.origin, origin);
  EXPECT_EQ(log.processes[0].process.origin->user, "al \"the\" ice");
  EXPECT_FALSE(log.processes[0].process.origin->world_size);
  EXPECT_EQ(log.processes[0].process.origin, log.processes[2].process.origin) << "kept once";
  EXPECT_FALSE(log.processes[1].process.origin);
}

TEST_F(SampleFileTest, OddOriginsDoNoHarm) {
  const SampleLog log = good(
      "{\"time_ns\":1800000000000000000,\"device\":0,\"processes\":[{\"pid\":7,\"user\":12,\"rank\":\"x\",\"pod\":null,"
      "\"container\":{\"a\":[1]},"
      "\"slurm_job\":\"8\\u00e4\"},{\"user\":\"nobody\"}]}\n");
  ASSERT_EQ(log.processes.size(), 2u);
  ProcessOrigin only;
  only.slurm_job = "8ä";
  EXPECT_EQ(*log.processes[0].process.origin, only);
}

TEST_F(SampleFileTest, RowsAreShortAndConstantsComeOnce) {
  SampleWriter writer(SampleFormat::kJsonLines, {h100(0)}, {});
  (void)writer.row(reading(0, kT0, 1));
  EXPECT_EQ(writer.row(reading(0, kT0 + 1, 50)),
            "{\"time_ns\":1800000000000000001,\"device\":0,\"utilization_pct\":50,\"memory_used_bytes\":80000000000,"
            "\"energy_j\":1234.5678}\n");
  EXPECT_EQ(writer.row(reading(7, kT0, 1)), "");
}

TEST_F(SampleFileTest, TheHostIsWrittenAndReadsBack) {
  for (const SampleFormat format : {SampleFormat::kJsonLines, SampleFormat::kCsv}) {
    std::vector<DeviceInfo> devices = {h100(0), h100(1)};
    devices[1].host = "elsewhere";   // a replay of another host's
    SampleWriter writer(format, devices, {Metric::kUtilization}, "node, \"a\"");
    std::string text = writer.header();
    for (int i = 0; i < 3; ++i)
      for (uint32_t d : {0u, 1u}) text += writer.row(reading(d, kT0 + i * kStep, i));
    const SampleLog log = good(text);
    ASSERT_EQ(log.devices.size(), 2u);
    EXPECT_EQ(log.devices[0].host, "elsewhere");
    EXPECT_EQ(log.devices[1].host, "node, \"a\"");
    EXPECT_EQ(log.devices[1].index, 0u);
    EXPECT_EQ(log.label(0), "1 of elsewhere");
  }
}

// One after the other, as `cat` puts them, and by turns, as CSV sorted by time is.
TEST_F(SampleFileTest, LogsOfTwoHostsInOneFileStayApart) {
  for (const SampleFormat format : {SampleFormat::kJsonLines, SampleFormat::kCsv}) {
    std::array<std::string, 2> texts;
    for (size_t h = 0; h < 2; ++h) {
      DeviceInfo device;   // no UUID: the host alone tells them apart
      device.vendor = "AMD";
      SampleWriter writer(format, {device}, {Metric::kUtilization}, h == 0 ? "a" : "b");
      texts[h] = writer.header();
      for (int i = 0; i < 3; ++i)
        texts[h] += writer.row(reading(0, kT0 + i * kStep, 10.0 * i + static_cast<double>(h)));
    }
    const SampleLog log = good(texts[0] + texts[1]);
    ASSERT_EQ(log.devices.size(), 2u);
    EXPECT_EQ(values(log, 0, Metric::kUtilization), (std::vector<double>{0, 10, 20}));
    EXPECT_EQ(values(log, 1, Metric::kUtilization), (std::vector<double>{1, 11, 21}));
  }
  const SampleLog turns = good(
      "time_ns,device,host,power_w\n1800000000000000000,0,a,1\n1800000000000000000,0,b,2\n"
      "1800000000000000001,0,a,3\n1800000000000000001,0,b,4\n");
  ASSERT_EQ(turns.devices.size(), 2u);
  EXPECT_EQ(values(turns, 0, Metric::kPower), (std::vector<double>{1, 3}));
  EXPECT_EQ(values(turns, 1, Metric::kPower), (std::vector<double>{2, 4}));
}

TEST_F(SampleFileTest, ALogOfSeveralHostsWrittenAnewReadsBack) {
  std::vector<DeviceInfo> devices = {h100(0), h100(0), h100(1)};
  devices[0].host = "node-1", devices[1].host = "node-2", devices[2].host = "node-2";
  devices[1].uuid = "GPU-other";
  SampleWriter writer(SampleFormat::kJsonLines, devices, {Metric::kUtilization});
  std::string text;
  for (int i = 0; i < 2; ++i)
    for (uint32_t d : {0u, 1u, 2u}) text += writer.row(reading(d, kT0 + i * kStep, 10.0 * d + i));
  const SampleLog log = good(text);
  ASSERT_EQ(log.devices.size(), 3u);
  for (uint32_t d : {0u, 1u, 2u}) {
    EXPECT_EQ(log.devices[d].index, devices[d].index);
    EXPECT_EQ(log.devices[d].host, devices[d].host);
    EXPECT_EQ(values(log, d, Metric::kUtilization), (std::vector<double>{10.0 * d, 10.0 * d + 1}));
  }
}

TEST_F(SampleFileTest, LogsAreJoinedByHostAndDevice) {
  const auto log = [](const std::string& host, const std::string& uuid, int64_t time, double value) {
    SampleLog l;
    DeviceInfo d;
    d.host = host, d.uuid = uuid;
    l.devices = {d};
    l.series = {{0, Metric::kUtilization, {time}, {value}}};
    l.first_ns = l.last_ns = time, l.ticks = 1;
    return l;
  };
  // Pieces of one log; an older piece without its host; and the same number on another host.
  const SampleLog joined = joined_samples(
      {log("a", "GPU-1", 1, 1), log("", "GPU-1", 2, 2), log("b", "GPU-1", 3, 3), log("a", "GPU-1", 4, 4)});
  ASSERT_EQ(joined.devices.size(), 2u);
  EXPECT_EQ(values(joined, 0, Metric::kUtilization), (std::vector<double>{1, 2, 4}));
  EXPECT_EQ(values(joined, 1, Metric::kUtilization), std::vector<double>{3});
  // Without an identity, a device of nobody knows which host is not this host's.
  EXPECT_EQ(joined_samples({log("a", "", 1, 1), log("", "", 2, 2), log("b", "", 3, 3)}).devices.size(), 3u);
  EXPECT_EQ(joined_samples({log("", "", 1, 1), log("", "", 2, 2)}).devices.size(), 1u);
}

TEST_F(SampleFileTest, AlertsBetweenTheRowsArePassedOver) {
  const std::string alert =
      "{\"time_ns\":1800000000500000000,\"device\":0,\"alert\":{\"name\":\"hot\",\"value\":91}}\n";
  const std::string row = "{\"time_ns\":1800000000000000000,\"device\":0,\"power_w\":100}\n";
  const SampleLog log = good(alert + row + alert + alert);
  EXPECT_EQ(log.ticks, 1);
  EXPECT_EQ(issues_.damaged_rows, 0);
  EXPECT_TRUE(issues_.unknown.empty());
  EXPECT_TRUE(looks_like_samples(alert));
}

TEST_F(SampleFileTest, CsvHasEveryColumnAndReadsBack) {
  SampleWriter writer(SampleFormat::kCsv, {h100(0)}, {Metric::kUtilization, Metric::kMemoryTotal, Metric::kPower});
  EXPECT_EQ(writer.header(), "time_ns,device,name,uuid,host,utilization_pct,memory_total_bytes,power_w\n");
  const std::string row(writer.row(reading(0, kT0, 99.25)));
  EXPECT_EQ(row, "1800000000000000000,0,\"NVIDIA H100, \"\"80GB\"\"\",GPU-0000-0,,99.25,85520809984,\n");
  EXPECT_EQ(writer.mark(kT0, "x"), "");
  const SampleLog log = good(writer.header() + row);
  ASSERT_EQ(log.devices.size(), 1u);
  EXPECT_EQ(log.devices[0].name, h100(0).name);
  EXPECT_EQ(log.devices[0].constant(Metric::kMemoryTotal), 85520809984.0);
  EXPECT_EQ(values(log, 0, Metric::kUtilization), std::vector<double>{99.25});
  EXPECT_EQ(find(log, 0, Metric::kPower), nullptr);
  const SampleWriter all(SampleFormat::kCsv, {h100(0)}, {});
  for (const MetricInfo& m : metrics()) EXPECT_NE(all.header().find("," + std::string(m.name)), std::string::npos);
}

TEST_F(SampleFileTest, SeveralSamplesOfOneReading) {
  Reading r;
  r.time_ns = 100;
  r.add(Metric::kUtilization, 100, 70);   // out of order, as a driver's ring may be
  r.add(Metric::kUtilization, 0, 10);
  r.add(Metric::kUtilization, 50, 60);
  r.add(Metric::kEnergy, 7, 60), r.add(Metric::kEnergy, 5, 10);
  r.add(Metric::kClockEventReasons, 4, 10), r.add(Metric::kClockEventReasons, 1, 60);
  r.add(Metric::kPower, 10, 50), r.add(Metric::kPower, 20, 50);
  r.add(Metric::kTemperature, std::nan(""));
  SampleRow row;
  row.take(r);
  // 0 for 50 ns, 50 for 10, 100 for their mean of 30.
  EXPECT_DOUBLE_EQ(*row[Metric::kUtilization], (0 * 50 + 50 * 10 + 100 * 30) / 90.0);
  EXPECT_EQ(row[Metric::kEnergy], 7);
  EXPECT_EQ(row[Metric::kClockEventReasons], 1);
  EXPECT_EQ(row[Metric::kPower], 15);
  EXPECT_EQ(row[Metric::kTemperature], std::nullopt);
}

TEST_F(SampleFileTest, NumbersReadBackExactly) {
  for (const double x : {0.1, 1e-7, 1.0 / 3, 8e10, 9007199254740993.0, 1.8446744073709552e19, -40.0, 0.0}) {
    std::string text;
    append_number(text, x);
    EXPECT_EQ(std::strtod(text.c_str(), nullptr), x) << text;
  }
  std::string text;
  append_number(text, 80000000000.0);
  EXPECT_EQ(text, "80000000000");
}

TEST_F(SampleFileTest, DevicesOfTwoVendorsAndInstances) {
  DeviceInfo amd = h100(0), instance = h100(0);
  amd.vendor = "AMD", amd.uuid = "", amd.constants.clear();
  instance.gpu_instance = 7, instance.uuid = "MIG-1", instance.mig_profile = "3g.40gb";
  const std::vector<DeviceInfo> devices = {h100(0), amd, instance};
  for (const SampleFormat format : {SampleFormat::kJsonLines, SampleFormat::kCsv}) {
    SampleWriter writer(format, devices, {Metric::kUtilization});
    std::string text = writer.header();
    for (uint32_t d = 0; d < 3; ++d) text += writer.row(reading(d, kT0, d));
    EXPECT_NE(text.find("NVIDIA 0"), std::string::npos);
    const SampleLog log = good(text);
    ASSERT_EQ(log.devices.size(), 3u);
    std::map<std::string, double> seen;
    for (uint32_t d = 0; d < 3; ++d)
      seen[log.devices[d].vendor + log.devices[d].uuid + log.devices[d].label()] =
          values(log, d, Metric::kUtilization).at(0);
    EXPECT_EQ(seen.size(), 3u);
    EXPECT_EQ(seen["AMD0"], 1);
    EXPECT_TRUE(
        std::any_of(log.devices.begin(), log.devices.end(), [](const DeviceInfo& d) { return d.gpu_instance == 7u; }));
  }
}

TEST_F(SampleFileTest, WhatNvidiaSmiWritesIsAnInput) {
  const SampleLog log = good(
      "timestamp, index, name, uuid, pci.bus_id, driver_version, pstate, utilization.gpu [%], memory.used [MiB], "
      "memory.total [MiB], power.draw [W], clocks.current.sm [MHz], clocks_event_reasons.active, "
      "clocks_event_reasons_counters.sw_power_cap [us], ecc.errors.corrected.volatile.total, fan.speed [%], serial\r\n"
      "2027/01/15 08:00:00.250, 1, NVIDIA L40S, GPU-b, 00000000:0A:00.0, 595.80, P0, 97 %, 1024 MiB, 46068 MiB, 301.25 "
      "W, "
      "2520 MHz, 0x0000000000000004, 1500 us, 0, [N/A], 1650\r\n"
      "2027/01/15 08:00:00.251, 0, NVIDIA L40S, GPU-a, 00000000:09:00.0, 595.80, P8, 0 %, 2 MiB, 46068 MiB, 35.1 W, "
      "210 MHz, 0x0000000000000001, 0 us, 0, [Not Supported], 1651\r\n"
      "2027/01/15 08:00:01.250, 1, NVIDIA L40S, GPU-b, 00000000:0A:00.0, 595.80, P0, [Unknown Error], 1024 MiB, 46068 "
      "MiB, "
      "300 W, 2520 MHz, 0x0000000000000004, 2500 us, 0, ERR!, 1650\r\n");
  EXPECT_EQ(issues_.damaged_rows, 0);
  EXPECT_EQ(issues_.unknown, std::vector<std::string>{"serial"});
  ASSERT_EQ(log.devices.size(), 2u);
  EXPECT_EQ(log.devices[1].pci_bus_id, "00000000:0a:00.0");
  EXPECT_EQ(log.devices[1].constant(Metric::kMemoryTotal), 46068.0 * 1048576);
  EXPECT_EQ(values(log, 1, Metric::kMemoryUsed), (std::vector<double>{1 << 30, 1 << 30}));
  EXPECT_EQ(values(log, 1, Metric::kUtilization), std::vector<double>{97});
  EXPECT_EQ(values(log, 0, Metric::kPerformanceState), std::vector<double>{8});
  EXPECT_EQ(values(log, 1, Metric::kClockEventReasons), (std::vector<double>{4, 4}));
  EXPECT_EQ(values(log, 1, Metric::kThrottlePower), (std::vector<double>{1.5e6, 2.5e6}));
  EXPECT_EQ(find(log, 1, Metric::kFanSpeed), nullptr);
  EXPECT_EQ(log.first_ns, kT0 + 250'000'000);   // TZ is UTC here
}

TEST_F(SampleFileTest, RowsInAnyOrderAndTwice) {
  std::string text;
  for (const int i : {3, 0, 2, 1, 2})
    text += "{\"time_ns\":" + std::to_string(kT0 + i) + ",\"device\":1,\"power_w\":" + std::to_string(i) + "}\n" +
            "{\"device\":\"0\",\"power_w\":" + std::to_string(10 + i) + ",\"time_ns\":" + std::to_string(kT0 + i) +
            "}\n";
  text += "{\"time_ns\":" + std::to_string(kT0 + 2) + ",\"device\":1,\"power_w\":22}\n";
  const SampleLog log = good(text);
  EXPECT_EQ(values(log, 0, Metric::kPower), (std::vector<double>{10, 11, 12, 13}));
  EXPECT_EQ(values(log, 1, Metric::kPower), (std::vector<double>{0, 1, 22, 3}));
  EXPECT_EQ(find(log, 1, Metric::kPower)->time_ns, (std::vector<int64_t>{kT0, kT0 + 1, kT0 + 2, kT0 + 3}));
}

TEST_F(SampleFileTest, DamagedRowsAreCountedAndLeftOut) {
  const std::string row = "{\"time_ns\":1800000000000000000,\"device\":0,\"power_w\":1}\n";
  const SampleLog log =
      good(row + "{\"time_ns\":18000\n\n{\"device\":0,\"power_w\":2}\nnonsense\n{\"time_ns\":-5,\"device\":0}\n" +
           "{\"time_ns\":1800000000000000001,\"device\":0,\"power_w\":\"many\",\"temperature_c\":60}\n" +
           "{\"time_ns\":1800000000000000002,\"device\":0,\"power_w\":1e400,\"temperature_c\":null}\n" +
           "{\"time_ns\":99999999999999999999999,\"device\":0,\"power_w\":3}\n" +
           "{\"time_ns\":1800000000000000003,\"device\":0,\"power_w\":[1]} x\n");
  EXPECT_EQ(issues_.damaged_rows, 8);
  EXPECT_EQ(issues_.first_damaged_line, 2);
  EXPECT_FALSE(issues_.torn);
  EXPECT_EQ(values(log, 0, Metric::kPower), std::vector<double>{1});
  EXPECT_EQ(values(log, 0, Metric::kTemperature), std::vector<double>{60});
}

TEST_F(SampleFileTest, ATornLastLineIsLeftOut) {
  const std::string json = "{\"time_ns\":1800000000000000000,\"device\":0,\"power_w\":15}";
  EXPECT_EQ(good(json + "\n" + json.substr(0, 40)).ticks, 1);
  EXPECT_TRUE(issues_.torn);
  EXPECT_EQ(issues_.damaged_rows, 0);
  EXPECT_EQ(good(json + "\n" + json).ticks, 2);
  EXPECT_FALSE(issues_.torn);
  // 15 may have been 150.
  const SampleLog csv = good("time_ns,device,power_w\n1800000000000000000,0,14\n1800000000000000001,0,15");
  EXPECT_TRUE(issues_.torn);
  EXPECT_EQ(values(csv, 0, Metric::kPower), std::vector<double>{14});
  // A writer that was killed, and another that went on behind it.
  EXPECT_EQ(good(json + "\n" + json.substr(0, 40) + "\n" + json + "\n").ticks, 2);
  EXPECT_EQ(issues_.damaged_rows, 1);
}

TEST_F(SampleFileTest, OddCsv) {
  const SampleLog log = good(
      "\xEF\xBB\xBFtimestamp,device,power_w,memory_used_bytes\r\n"
      "1800000000.5,0,100,1 GiB\r\n"
      "2027-01-15T08:00:01.5Z,0,100.5 W,\r\n"
      "2027-01-15T10:00:02.500+02:00,0,0.101 kW,nan\r\n"
      "1800000003500,0,102\r\n"
      "1800000003500,0,102,1,1\r\n"
      "\r\n"
      "timestamp,device,memory_used_bytes,power_w\r\n"
      "1800000003500,0,5,102\r\n"
      "1800000004500000,0,\"6\",\"103\"\r\n"
      "1800000005500000000,0,7,\"104\r\n");
  EXPECT_EQ(issues_.damaged_rows, 3);
  EXPECT_EQ(values(log, 0, Metric::kPower), (std::vector<double>{100, 100.5, 101, 102, 103}));
  EXPECT_EQ(values(log, 0, Metric::kMemoryUsed), (std::vector<double>{1 << 30, 5, 6}));
  EXPECT_EQ(find(log, 0, Metric::kPower)->time_ns,
            (std::vector<int64_t>{kT0 + 500'000'000, kT0 + 1'500'000'000, kT0 + 2'500'000'000, kT0 + 3'500'000'000,
                                  kT0 + 4'500'000'000}));
}

TEST_F(SampleFileTest, TimeInNanosecondsIsNeverTakenForSeconds) {
  const SampleLog log = good(
      "{\"time_ns\":21000000000,\"timestamp\":\"2027-01-15T08:00:00Z\",\"device\":0,\"power_w\":1}\n"
      "{\"timestamp\":\"2027-01-15T08:00:00Z\",\"time_ns\":0,\"device\":0,\"power_w\":1}\n");
  EXPECT_EQ(log.first_ns, 0);
  EXPECT_EQ(log.last_ns, 21'000'000'000);
}

TEST_F(SampleFileTest, OneIndexMayBeAnotherDeviceLater) {
  const SampleLog log = good(
      "time_ns,device,name,uuid,power_w\n1800000000000000000,0,A,GPU-a,1\n1800000000000000001,0,B,GPU-b,2\n"
      "1800000000000000002,0,A,GPU-a,3\n");
  ASSERT_EQ(log.devices.size(), 2u);
  EXPECT_EQ(values(log, 0, Metric::kPower), (std::vector<double>{1, 3}));
  EXPECT_EQ(values(log, 1, Metric::kPower), std::vector<double>{2});
}

TEST_F(SampleFileTest, WithoutADeviceColumnThereIsOneDevice) {
  const SampleLog log = good("timestamp, utilization.gpu [%]\n2027/01/15 08:00:00.000, 5 %\n");
  EXPECT_EQ(log.devices.size(), 1u);
  EXPECT_TRUE(issues_.one_device);
}

TEST_F(SampleFileTest, FilesWithNothingSayWhy) {
  EXPECT_NE(error("").find("is empty"), std::string::npos);
  EXPECT_NE(error("time_ns,device,power_w\n").find("no rows"), std::string::npos);
  EXPECT_NE(error("index, utilization.gpu [%]\n0, 5 %\n").find("no column time_ns"), std::string::npos);
  EXPECT_NE(error("hello\nworld\n").find("damaged rows: 2, the first in line 1"), std::string::npos);
  EXPECT_NE(error("{\"time_ns\":1,\"mark\":\"only\"}\n").find("no row"), std::string::npos);
  EXPECT_NE(error(std::string(3'000'000, '\0')).find("could be read"), std::string::npos);
  EXPECT_NE(error(std::string(40 << 20, 'x')).find("could be read"), std::string::npos);
  std::string binary;
  for (uint32_t i = 0, x = 1; i < 200000; ++i) binary += static_cast<char>((x = x * 1664525 + 1013904223) >> 24);
  EXPECT_NE(error(binary).find("damaged rows"), std::string::npos);
  EXPECT_NE(read_sample_file("/nowhere/log.csv", issues_).error().message.find("/nowhere/log.csv"), std::string::npos);
}

TEST_F(SampleFileTest, AMillionColumnsOrDevicesDoNoHarm) {
  std::string text = "{\"time_ns\":1800000000000000000,\"device\":0";
  for (int i = 0; i < 200000; ++i) text += ",\"k" + std::to_string(i) + "\":1";
  text += "}\n";
  for (int i = 0; i < 100000; ++i)
    text += "{\"time_ns\":1800000000000000000,\"device\":" + std::to_string(i) + ",\"power_w\":1}\n";
  const SampleLog log = good(text);
  EXPECT_LE(log.devices.size(), 4096u);
  EXPECT_GT(issues_.damaged_rows, 90000);
  EXPECT_LE(issues_.unknown.size(), 20u);
}

TEST_F(SampleFileTest, CompressedAndCut) {
  std::string text = "time_ns,device,power_w\n";
  for (int i = 0; i < 50000; ++i)
    text += std::to_string(kT0 + i * kStep) + ",0," + std::to_string((i * 7919) % 700) + "\n";
  const std::string path = (folder_ / "log.csv.gz").string();
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  auto log = read_sample_file(path, issues_);
  ASSERT_TRUE(log);
  EXPECT_EQ(log->ticks, 50000);
  EXPECT_FALSE(issues_.torn);
  fs::resize_file(path, fs::file_size(path) / 2);
  log = read_sample_file(path, issues_);
  ASSERT_TRUE(log);
  EXPECT_GT(log->ticks, 10000);
  EXPECT_TRUE(issues_.torn);
}

TEST_F(SampleFileTest, AMillionRows) {
  std::string text =
      "time_ns,device,name,uuid,utilization_pct,memory_used_bytes,power_w,energy_j,temperature_c,sm_clock_mhz,"
      "memory_clock_mhz,clock_event_reasons\n";
  for (int i = 0; i < 1000000; ++i)
    text += std::to_string(kT0 + i / 8 * kStep) + "," + std::to_string(i % 8) + ",NVIDIA H100 80GB HBM3,GPU-" +
            std::to_string(i % 8) + "," + std::to_string(i % 101) + ",80000000000,512.25," + std::to_string(i) +
            ",61,1755,2619,4\n";
  const std::string path = write(text);
  const auto start = std::chrono::steady_clock::now();
  auto log = read_sample_file(path, issues_);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(log);
  EXPECT_EQ(log->ticks, 1000000);
  EXPECT_EQ(log->series.size(), 64u);
  EXPECT_LT(took.count(), 120) << "seconds";   // two in a release build; sanitizers and other programs take their share
  RecordProperty("seconds", std::to_string(took.count()));
}

TEST_F(SampleFileTest, Sniffing) {
  EXPECT_TRUE(looks_like_samples("time_ns,device,power_w\n1"));
  EXPECT_TRUE(looks_like_samples("timestamp, index, utilization.gpu [%]\n"));
  EXPECT_TRUE(looks_like_samples("\xEF\xBB\xBF{\"time_ns\":1800000000000000000,\"device\":0,\"power_w\":1}\n{"));
  EXPECT_TRUE(
      looks_like_samples("ice\":0,\"power_w\":1}\n{\"time_ns\":1800000000000000000,\"device\":0,\"power_w\":1}\n"));
  EXPECT_FALSE(looks_like_samples(""));
  EXPECT_FALSE(looks_like_samples("{\n  \"schemaVersion\": 1,\n  \"traceEvents\": [\n"));
  EXPECT_FALSE(
      looks_like_samples("{\"schemaVersion\":1,\"traceEvents\":[{\"ph\":\"X\",\"ts\":1,\"args\":{\"device\":0}}]}"));
  EXPECT_FALSE(looks_like_samples("[{\"ph\":\"X\",\"ts\":1,\"name\":\"k\",\"args\":{\"device\":0}},\n"));
  EXPECT_FALSE(looks_like_samples("time,loss\n1,2\n"));
  EXPECT_FALSE(looks_like_samples("name,index\na,1\n"));
}

TEST_F(SampleFileTest, FormatByName) {
  EXPECT_EQ(*sample_format_of("a/b.csv"), SampleFormat::kCsv);
  for (const char* name : {"x.jsonl", "x.ndjson", "x.json"})
    EXPECT_EQ(*sample_format_of(name), SampleFormat::kJsonLines);
  EXPECT_FALSE(sample_format_of("x.txt"));
}

TEST(Timestamp, WhatIsWrittenReadsBack) {
  for (const char* zone : {"UTC", "Asia/Kolkata", "America/New_York"}) {
    ::setenv("TZ", zone, 1), ::tzset();
    TimestampReader reader;
    for (const int64_t t : {kT0 + 123'000'000, kT0 + 86'400'000'000'000 * 180 + 5'999'000'000}) {
      for (const auto style :
           {TimestampStyle::kUnixNs, TimestampStyle::kEpoch, TimestampStyle::kIso, TimestampStyle::kNvidiaSmi})
        EXPECT_EQ(reader.read(timestamp_text(t, style)), t) << zone << " " << timestamp_text(t, style);
    }
  }
  ::setenv("TZ", "UTC", 1), ::tzset();
}

TEST(Timestamp, Nonsense) {
  TimestampReader reader;
  for (const char* text :
       {"", "now", "2026/13/01 00:00:00", "2026/01/01 24:00:00", "2026/01/01 00:00:00 EST", "2026-01-01T00:00",
        "1969/01/01 00:00:00.000", "-5", "1e30", "2026/01/01 00:00:0x.1", "99999999999999999999"})
    EXPECT_EQ(reader.read(text), std::nullopt) << text;
  EXPECT_EQ(reader.read("2027-01-15 08:00:00,25Z"), kT0 + 250'000'000);
}

}  // namespace
}  // namespace profgpu
