#include "watch/exporter/exporter_page.h"

#include <gtest/gtest.h>

#include "watch/exporter/exposition.h"
#include "watch/exporter/metrics_page.h"

namespace profgpu {
namespace {

constexpr int64_t kNow = 1'767'225'600'000'000'000;

TEST(ExpositionReader, LinesOfBothFormats) {
  ExpositionReader reader(
      "# HELP a b\na 1\n b{x=\"1\", y=\"q\\\"\\\\\\n,}\"} 2.5e3 1767225600123\r\n\nc{} NaN\nd{x=\"} 1\ne 1 \n# EOF\n3 "
      "4\nf");
  std::string seen;
  for (ExpositionSample s; reader.next(s);) {
    seen += std::string(s.name) + "=" + std::to_string(s.value);
    for (const auto& [key, value] : s.labels) seen += " " + std::string(key) + ":" + value;
    seen += ";";
  }
  EXPECT_EQ(seen, "a=1.000000;b=2500.000000 x:1 y:q\"\\\n,};e=1.000000;");
}

DeviceInfo h100() {
  DeviceInfo d;
  d.index = 3;
  d.vendor = "NVIDIA";
  d.name = "H100 \"80GB\"";
  d.uuid = "GPU-3";
  d.pci_bus_id = "00000000:1a:00.0";
  d.driver_version = "590.48.01";
  d.constants = {{Metric::kMemoryTotal, 85e9}, {Metric::kSmClockMax, 1980}};
  return d;
}

std::string page_of(DcgmNames names, bool up = true, const std::vector<PodContainer>& pods = {}, bool shared = false) {
  static const DeviceInfo kInfo = h100();
  const DcgmCounters counters = default_dcgm_counters();
  DeviceTally tally(kInfo, 1'000'000'000);
  Reading reading;
  reading.time_ns = kNow;
  reading.add(Metric::kUtilization, 42);
  reading.add(Metric::kPower, 123.456);
  reading.add(Metric::kMemoryUsed, 5.5 * (1 << 20));
  reading.add(Metric::kMemoryFree, 100.0 * (1 << 20));
  reading.add(Metric::kEnergy, 1000.5);
  reading.add(Metric::kThrottleHwThermal, 3e9);
  reading.add(Metric::kClockEventReasons, 0x44);
  reading.add(Metric::kXidErrors, 1);
  reading.add(Metric::kXidLast, 79);
  tally.add(reading);
  MetricsPageInput input;
  input.host = "node1";
  input.names = names;
  input.counters = &counters;
  input.now_ns = kNow;
  input.devices.push_back({&kInfo, tally, up, {0, kNow, 0, up ? "" : "GPU is lost"}, {"4711"}, pods});
  input.kubelet.emplace().take(PodsByDevice(1), kNow);
  input.shared_pods = shared;
  return metrics_page(input, ExpositionFormat::kPrometheus);
}

TEST(MetricsPage, WhatIsOfAWholeGpuIsThereOnce) {
  DeviceInfo gpu = h100(), instance = h100();
  gpu.index = instance.index = 0;
  instance.parent = 0, instance.gpu_instance = 7, instance.uuid = "MIG-7", instance.mig_profile = "1g.10gb";
  const DcgmCounters counters = default_dcgm_counters();
  MetricsPageInput input;
  input.counters = &counters;
  input.now_ns = kNow;
  for (const DeviceInfo* info : {&gpu, &instance}) {
    DeviceTally tally(*info, 1'000'000'000);
    Reading reading;
    reading.time_ns = kNow;
    for (const Metric m : {Metric::kEnergy, Metric::kPcieTxRate, Metric::kMemoryUsed}) reading.add(m, 5);
    tally.add(reading);
    input.devices.push_back({info, tally, true, {0, kNow, 0, ""}});
  }
  const std::string page = metrics_page(input, ExpositionFormat::kPrometheus);
  const auto series = [&](const std::string& name) {
    size_t n = 0;
    for (size_t at = 0; (at = page.find("\n" + name + "{", at)) != page.npos; ++at) ++n;
    return n;
  };
  for (const char* name : {"profgpu_energy_joules_total", "profgpu_pcie_tx_bytes_total", "DCGM_FI_PROF_PCIE_TX_BYTES",
                           "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"})
    EXPECT_EQ(series(name), 1U) << name;
  EXPECT_EQ(series("profgpu_memory_used_bytes"), 2U);
}

TEST(MetricsPage, TheXidOfALostDeviceStays) {
  const std::string page = page_of(DcgmNames::kClassic, false);
  EXPECT_NE(page.find("DCGM_FI_DEV_XID_ERRORS{"), page.npos);
  EXPECT_NE(page.find("err_code=\"79\""), page.npos);
  EXPECT_EQ(page.find("DCGM_FI_DEV_GPU_UTIL{"), page.npos);
}

ExporterDevice only_device(const std::string& text) {
  auto page = read_exporter_page(text);
  EXPECT_TRUE(page) << text;
  if (!page) return {};
  EXPECT_EQ(page->host, "node1");
  EXPECT_EQ(page->devices.size(), 1U);
  return page->devices.front();
}

std::optional<double> of(const ExporterDevice& d, Metric m) { return d.values[static_cast<size_t>(m)]; }

TEST(ExporterPage, OurPageReadsBack) {
  for (const DcgmNames names : {DcgmNames::kOff, DcgmNames::kClassic, DcgmNames::kNew}) {
    const ExporterDevice d = only_device(page_of(names));
    EXPECT_EQ(d.info.index, 3U);
    EXPECT_EQ(d.info.name, "H100 \"80GB\"");
    EXPECT_EQ(d.info.uuid, "GPU-3");
    EXPECT_EQ(d.info.vendor, "NVIDIA");
    EXPECT_EQ(d.info.pci_bus_id, "00000000:1a:00.0");
    EXPECT_EQ(d.info.driver_version, "590.48.01");
    EXPECT_TRUE(d.up);
    EXPECT_EQ(d.good_at_ns, kNow);
    EXPECT_EQ(d.jobs, std::vector<std::string>{"4711"});
    EXPECT_DOUBLE_EQ(of(d, Metric::kUtilization).value(), 42);
    EXPECT_DOUBLE_EQ(of(d, Metric::kPower).value(), 123.456);
    EXPECT_DOUBLE_EQ(of(d, Metric::kMemoryUsed).value(), 5.5 * (1 << 20)) << "not DCGM's, which is cut to MiB";
    EXPECT_DOUBLE_EQ(of(d, Metric::kThrottleHwThermal).value(), 3e9);
    EXPECT_EQ(of(d, Metric::kClockEventReasons), 0x44);
    EXPECT_EQ(of(d, Metric::kXidErrors), 1);
    EXPECT_EQ(d.info.constant(Metric::kMemoryTotal), 85e9);
    EXPECT_DOUBLE_EQ(d.info.constant(Metric::kSmClockMax).value_or(0), 1980);
    EXPECT_FALSE(of(d, Metric::kTemperature));
  }
}

TEST(ExporterPage, ALostDeviceIsNoDeviceThatIsIdle) {
  const ExporterDevice d = only_device(page_of(DcgmNames::kClassic, false));
  EXPECT_FALSE(d.up);
  EXPECT_FALSE(of(d, Metric::kUtilization));
}

TEST(ExporterPage, ContainersAreLabelsOfDcgmsSeries) {
  const std::vector<PodContainer> pods = {{"team", "a\"b", "main", "0"}, {"team", "c", "main", ""}};
  const auto count = [](const std::string& text, const std::string& piece) {
    size_t n = 0;
    for (size_t at = text.find(piece); at != text.npos; at = text.find(piece, at + 1)) ++n;
    return n;
  };
  const std::string power = "\nDCGM_FI_DEV_POWER_USAGE{";
  const std::string one = page_of(DcgmNames::kClassic, true, pods),
                    each = page_of(DcgmNames::kClassic, true, pods, true);
  EXPECT_EQ(count(one, power), 1U);
  EXPECT_NE(one.find(R"(590.48.01",container="main",namespace="team",pod="a\"b",hpc_job="4711"} 123.456)"), one.npos)
      << one;
  EXPECT_EQ(count(each, power), 2U);
  EXPECT_NE(each.find(R"(pod="a\"b",vgpu="0",hpc_job="4711"} 123.456)"), each.npos) << each;
  EXPECT_NE(each.find(R"(pod="c",hpc_job="4711"} 123.456)"), each.npos) << each;
  EXPECT_EQ(count(one, "\nprofgpu_device_pod_info{"), 2U);
  EXPECT_EQ(count(one, "\nprofgpu_kubelet_up 1\n"), 1U);
  EXPECT_EQ(only_device(each).jobs, std::vector<std::string>{"4711"});
  EXPECT_DOUBLE_EQ(of(only_device(each), Metric::kPower).value(), 123.456);
  // Many containers and many jobs have bounds together.
  EXPECT_EQ(count(page_of(DcgmNames::kClassic, true, std::vector<PodContainer>(100, pods[1]), true), power), 64U);
}

TEST(ExporterPage, DcgmExportersOwn) {
  std::string text;
  const std::string labels =
      R"({gpu="0",UUID="GPU-a",pci_bus_id="00000000:3B:00.0",device="nvidia0",modelName="NVIDIA A100",Hostname="node1",DCGM_FI_DRIVER_VERSION="550.54"})";
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{{"GPU_UTIL", "98"},
                                                                                    {"FB_USED", "1000"},
                                                                                    {"FB_FREE", "79000"},
                                                                                    {"FB_RESERVED", "559"},
                                                                                    {"GPU_TEMP", "61"},
                                                                                    {"XID_ERRORS", "0"},
                                                                                    {"SM_CLOCK", "1410"}})
    text += "# TYPE DCGM_FI_DEV_" + name + " gauge\nDCGM_FI_DEV_" + name + labels + " " + value + "\n";
  text += "DCGM_FI_PROF_GR_ENGINE_ACTIVE" + labels + " 0.75\nDCGM_FI_PROF_PCIE_TX_BYTES" + labels +
          " 1000000\nDCGM_FI_DEV_SOMETHING_NEW" + labels + " 1\n";
  text += "DCGM_FI_PROF_PCIE_RX_BYTES" + labels + " 2000000\nDCGM_FI_PROF_NVLINK_RX_BYTES" + labels + " 9000000\n";
  const ExporterDevice d = only_device(text);
  EXPECT_EQ(of(d, Metric::kPcieRxRate), 2e6);
  EXPECT_EQ(d.info.vendor, "NVIDIA");
  EXPECT_EQ(d.info.pci_bus_id, "00000000:3b:00.0");
  EXPECT_EQ(of(d, Metric::kUtilization), 98);
  EXPECT_EQ(of(d, Metric::kMemoryUsed), 1000.0 * (1 << 20));
  EXPECT_EQ(d.info.constant(Metric::kMemoryTotal), 80559.0 * (1 << 20));
  EXPECT_EQ(of(d, Metric::kGraphicsActive), 75);
  EXPECT_EQ(of(d, Metric::kPcieTxRate), 1e6);
  EXPECT_FALSE(of(d, Metric::kXidLast));
  EXPECT_TRUE(d.up);
}

TEST(ExporterPage, InstancesAreDevicesOfTheirOwn) {
  const std::string text =
      "DCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-a\",GPU_I_PROFILE=\"3g.40gb\",GPU_I_ID=\"2\",Hostname=\"node1\"} 5\n"
      "DCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-a\",GPU_I_PROFILE=\"1g.10gb\",GPU_I_ID=\"7\",Hostname=\"node1\"} 6\n";
  auto page = read_exporter_page(text);
  ASSERT_TRUE(page);
  ASSERT_EQ(page->devices.size(), 2U);
  EXPECT_EQ(page->devices[0].info.label(), "0:2");
  EXPECT_EQ(page->devices[1].info.mig_profile, "1g.10gb");
}

TEST(ExporterPage, OtherPagesAreNone) {
  for (const char* text : {"", "<html>", "up 1\n", "node_cpu_seconds_total{cpu=\"0\"} 1\n", "profgpu_power_watts 5\n",
                           "DCGM_FI_DEV_GPU_UTIL{gpu=\"x\"} 1\n"})
    EXPECT_FALSE(read_exporter_page(text)) << text;
}

}  // namespace
}  // namespace profgpu
