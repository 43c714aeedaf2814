// The AMD backend against trees of sysfs: an MI300, an MI210, an APU, and broken ones.
#include <gtest/gtest.h>

#include <cstring>

#include "devices/backend.h"
#include "devices/drm_tree_test.h"

namespace profgpu {

extern const BackendKind kAmdgpu;

namespace {

constexpr int64_t kSecond = 1'000'000'000;

/// A table of gpu_metrics: ones where nothing is known, as the kernel leaves it.
class Table {
 public:
  Table(int format, int content, size_t size) : bytes_(size, '\xff') {
    put<uint16_t>(0, static_cast<uint16_t>(size));
    put<uint8_t>(2, static_cast<uint8_t>(format));
    put<uint8_t>(3, static_cast<uint8_t>(content));
  }
  template <class T>
  Table& put(size_t offset, T value) {
    std::memcpy(bytes_.data() + offset, &value, sizeof value);
    return *this;
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

Table mi300_table(uint64_t energy, uint32_t rounds, uint32_t power_rounds) {
  Table t(1, 6, 1664);
  t.put<uint16_t>(4, 61).put<uint16_t>(6, 47).put<uint16_t>(10, 742).put<uint16_t>(12, 97).put<uint16_t>(14, 33);
  t.put<uint64_t>(16, energy).put<uint32_t>(32, rounds).put<uint32_t>(36, 0).put<uint32_t>(40, power_rounds);
  t.put<uint32_t>(44, 0).put<uint32_t>(48, 0).put<uint32_t>(52, 0);
  t.put<uint16_t>(60, 16).put<uint16_t>(62, 320).put<uint64_t>(104, 4);
  for (size_t i = 0; i < 7; ++i) t.put<uint64_t>(128 + 8 * i, 1000).put<uint64_t>(192 + 8 * i, 3000);
  for (size_t i = 0; i < 8; ++i) t.put<uint16_t>(264 + 2 * i, static_cast<uint16_t>(2000 + 10 * i));
  t.put<uint16_t>(304, 1300);
  return t;
}

void add_mi300(const DrmTree& tree, const std::string& card, const std::string& pci) {
  tree.card(card, "1002", "74a1", "amdgpu", pci);
  tree.device(card, "product_name", "AMD Instinct MI300X OAM\n");
  tree.device(card, "unique_id", "a1b2c3d4e5f60718\n");
  tree.device(card, "gpu_metrics", mi300_table(65536ull * 1000, 5000, 100).bytes());
  tree.device(card, "gpu_busy_percent", "12\n");
  tree.device(card, "mem_info_vram_total", "206141652992\n");
  tree.device(card, "mem_info_vram_used", "103070826496\n");
  tree.device(card, "pp_dpm_sclk", "0: 132Mhz\n1: 2100Mhz *\n");
  tree.device(card, "max_link_speed", "32.0 GT/s PCIe\n");
  tree.device(card, "max_link_width", "16\n");
  tree.device(card, "current_link_width", "8\n");
  tree.device(card, "ras/umc_err_count", "ue: 1\nce: 22\n");
  tree.device(card, "ras/sdma_err_count", "ue: 0\nce: 0\n");
  tree.device(card, "ras/gpu_vram_bad_pages", "0x00000001 : 0x00001000 : R\n0x00000002 : 0x00001000 : P\n");
  // Reading this one sleeps for a second in the kernel; here it would be seen as a wrong value.
  tree.device(card, "pcie_bw", "1 2 256\n");
  tree.hwmon(card, "temp2_label", "junction\n");
  tree.hwmon(card, "temp2_input", "60000\n");
  tree.hwmon(card, "temp2_crit", "100000\n");
  tree.hwmon(card, "temp2_emergency", "105000\n");
  tree.hwmon(card, "temp3_label", "mem\n");
  tree.hwmon(card, "power1_input", "740000000\n");
  tree.hwmon(card, "power1_cap", "750000000\n");
  tree.hwmon(card, "power1_cap_max", "750000000\n");
}

std::unique_ptr<Backend> open() {
  auto backend = kAmdgpu.open({});
  EXPECT_TRUE(backend) << (backend ? "" : backend.error().message);
  return backend ? std::move(*backend) : nullptr;
}

TEST(Amdgpu, NoCardIsAnError) {
  const DrmTree tree;
  tree.card("card0", "10de", "2335", "nvidia", "0000:0a:00.0");
  tree.card("card1", "1002", "74a1", "vfio-pci", "0000:0b:00.0");
  const auto backend = kAmdgpu.open({});
  ASSERT_FALSE(backend);
  EXPECT_NE(backend.error().message.find("no AMD card"), std::string::npos);
}

TEST(Amdgpu, Mi300SaysMostInItsTable) {
  const DrmTree tree;
  add_mi300(tree, "card1", "0000:43:00.0");
  add_mi300(tree, "card10", "0000:03:00.0");
  tree.write("sys/class/drm/card1-DP-1/status", "connected\n");
  tree.write("sys/module/amdgpu/version", "6.10.5\n");
  const auto backend = open();
  ASSERT_EQ(backend->devices().size(), 2u);
  const DeviceInfo& info = backend->devices()[0];
  EXPECT_EQ(info.pci_bus_id, "00000000:03:00.0");
  EXPECT_EQ(info.name, "AMD Instinct MI300X OAM");
  EXPECT_EQ(info.uuid, "GPU-a1b2c3d4e5f60718");
  EXPECT_EQ(info.driver_version, "6.10.5");
  EXPECT_EQ(info.numa_node, 1);
  EXPECT_EQ(info.constant(Metric::kMemoryTotal), 206141652992.0);
  EXPECT_EQ(info.constant(Metric::kTemperatureSlowdown), 100);
  EXPECT_EQ(info.constant(Metric::kSmClockMax), 2100);
  EXPECT_EQ(info.constant(Metric::kPcieGenerationMax), 5);

  const OneReading r(*backend, 0, kSecond);
  EXPECT_EQ(r.error, "");
  EXPECT_EQ(r[Metric::kUtilization], 97);
  EXPECT_EQ(r[Metric::kMemoryUtilization], 33);
  EXPECT_EQ(r[Metric::kPower], 742);
  EXPECT_EQ(r[Metric::kEnergy], 1000);
  EXPECT_EQ(r[Metric::kTemperature], 61);
  EXPECT_EQ(r[Metric::kMemoryTemperature], 47);
  EXPECT_EQ(r[Metric::kSmClock], 2035);
  EXPECT_EQ(r[Metric::kMemoryClock], 1300);
  EXPECT_EQ(r[Metric::kPcieGeneration], 5);
  EXPECT_EQ(r[Metric::kPcieReplays], 4);
  EXPECT_EQ(r[Metric::kXgmiRx], 7 * 1000 * 1024.0);
  EXPECT_EQ(r[Metric::kXgmiTx], 7 * 3000 * 1024.0);
  EXPECT_EQ(r[Metric::kMemoryUsed], 103070826496.0);
  EXPECT_EQ(r[Metric::kMemoryFree], 103070826496.0);
  EXPECT_EQ(r[Metric::kPowerLimit], 750);
  EXPECT_EQ(r[Metric::kEccUncorrected], 1);
  EXPECT_EQ(r[Metric::kEccCorrected], 22);
  EXPECT_FALSE(r[Metric::kPcieTxRate]);
  EXPECT_FALSE(r[Metric::kFanSpeed]);
  EXPECT_EQ(backend->why_absent(0, Metric::kFanSpeed), "the kernel's driver has no pwm1 for this device");
  EXPECT_EQ(backend->why_absent(0, Metric::kEncoderUtilization), "amdgpu does not report it");
  EXPECT_EQ(backend->why_absent(0, Metric::kClockEventReasons), "not in this device's gpu_metrics (1.6)");
  EXPECT_EQ(backend->why_absent(0, Metric::kPower), "");
}

TEST(Amdgpu, EveryMetricIsThereOrHasAReason) {
  const DrmTree tree;
  add_mi300(tree, "card0", "0000:03:00.0");
  const auto backend = open();
  const OneReading r(*backend, 0, kSecond);
  for (const MetricInfo& m : metrics())
    if (!r[m.metric] && !backend->devices()[0].constant(m.metric))
      EXPECT_FALSE(backend->why_absent(0, m.metric).empty()) << m.name;
    else
      EXPECT_EQ(backend->why_absent(0, m.metric), "") << m.name;
}

TEST(Amdgpu, ThrottleTimeComesFromTheFirmwaresRounds) {
  const DrmTree tree;
  add_mi300(tree, "card0", "0000:03:00.0");
  const auto backend = open();
  const OneReading first(*backend, 0, kSecond);
  tree.device("card0", "gpu_metrics", mi300_table(65536ull * 1742, 6000, 350).bytes());
  const OneReading second(*backend, 0, 2 * kSecond);
  EXPECT_DOUBLE_EQ(*second[Metric::kThrottlePower] - *first[Metric::kThrottlePower], 0.25e9);
  EXPECT_EQ(*second[Metric::kThrottleThermal] - *first[Metric::kThrottleThermal], 0);
  EXPECT_EQ(*second[Metric::kEnergy] - *first[Metric::kEnergy], 742);
  // The firmware's counters start anew: never more than the time that went by.
  tree.device("card0", "gpu_metrics", mi300_table(65536, 10, 5).bytes());
  const OneReading third(*backend, 0, 3 * kSecond);
  EXPECT_LE(*third[Metric::kThrottlePower] - *second[Metric::kThrottlePower], 1e9);
}

TEST(Amdgpu, OrdinaryTicksReadFewFiles) {
  const DrmTree tree;
  add_mi300(tree, "card0", "0000:03:00.0");
  const auto backend = open();
  const int64_t before = backend->calls();
  for (int tick = 1; tick <= 100; ++tick) OneReading(*backend, 0, tick * 200'000'000LL, false, false);
  EXPECT_LE(backend->calls() - before, 300);
}

TEST(Amdgpu, Mi210HasThrottleStatusAndFan) {
  const DrmTree tree;
  tree.card("card0", "1002", "740f", "amdgpu", "0000:03:00.0");
  Table t(1, 3, 120);
  t.put<uint16_t>(4, 40).put<uint16_t>(6, 45).put<uint16_t>(8, 50).put<uint16_t>(16, 80).put<uint16_t>(18, 20);
  t.put<uint16_t>(22, 180).put<uint64_t>(24, 0).put<uint16_t>(54, 1700).put<uint16_t>(58, 1600);
  t.put<uint16_t>(74, 16).put<uint16_t>(76, 160);
  t.put<uint64_t>(112, 1ull | 1ull << 17 | 1ull << 36 | 1ull << 47);
  tree.device("card0", "gpu_metrics", t.bytes());
  tree.hwmon("card0", "pwm1", "51\n");
  tree.hwmon("card0", "energy1_input", "1\n");
  const auto backend = open();
  const OneReading r(*backend, 0, kSecond);
  EXPECT_EQ(r[Metric::kTemperature], 40);
  EXPECT_EQ(r[Metric::kMemoryTemperature], 50);
  EXPECT_EQ(r[Metric::kPower], 180);
  EXPECT_EQ(r[Metric::kFanSpeed], 20);
  EXPECT_EQ(r[Metric::kPcieGeneration], 4);
  EXPECT_EQ(r[Metric::kClockEventReasons], 4 | 8 | 0x20 | 0x40);
  EXPECT_FALSE(r[Metric::kEnergy]) << "a counter that stands still at 0";
  EXPECT_FALSE(r[Metric::kMemoryUsed]);
}

TEST(Amdgpu, ApuSaysItInItsFiles) {
  const DrmTree tree;
  tree.card("card0", "1002", "1681", "amdgpu", "0000:e4:00.0");
  Table t(2, 2, 128);
  t.put<uint16_t>(28, 9900).put<uint16_t>(40, 15000).put<uint16_t>(76, 2200).put<uint64_t>(120, 1ull << 5);
  tree.device("card0", "gpu_metrics", t.bytes());
  tree.device("card0", "gpu_busy_percent", "31\n");
  tree.device("card0", "mem_info_vram_used", "104857600\n");
  tree.device("card0", "mem_info_vram_total", "536870912\n");
  tree.hwmon("card0", "temp1_label", "edge\n");
  tree.hwmon("card0", "temp1_input", "52000\n");
  tree.hwmon("card0", "power1_average", "15234000\n");
  const auto backend = open();
  const OneReading r(*backend, 0, kSecond);
  EXPECT_EQ(r[Metric::kUtilization], 31);
  EXPECT_EQ(r[Metric::kPower], 15.234);
  EXPECT_EQ(r[Metric::kTemperature], 52);
  EXPECT_EQ(r[Metric::kSmClock], 2200);
  EXPECT_EQ(r[Metric::kClockEventReasons], 4);
}

TEST(Amdgpu, UnknownTablesAreNotReadAndTheFilesStandIn) {
  const std::string good = mi300_table(65536, 1, 1).bytes();
  std::string wrong_size = good.substr(0, 1000), from_the_future = good, of_another_size = good;
  from_the_future[3] = 99;
  of_another_size[0] = 0;
  const std::string random = "\x10\x00\x01\x03 rubbish";
  for (const std::string& table : {std::string(), std::string("x"), wrong_size, from_the_future, of_another_size,
                                   random, std::string(1 << 20, '\xff'), std::string(5000, '\0')}) {
    const DrmTree tree;
    add_mi300(tree, "card0", "0000:03:00.0");
    tree.device("card0", "gpu_metrics", table);
    const auto backend = open();
    const OneReading r(*backend, 0, kSecond);
    EXPECT_EQ(r.error, "");
    EXPECT_EQ(r[Metric::kUtilization], 12);
    EXPECT_EQ(r[Metric::kPower], 740);
    EXPECT_EQ(r[Metric::kTemperature], 60);
    EXPECT_FALSE(r[Metric::kEnergy]);
    EXPECT_NE(backend->why_absent(0, Metric::kEnergy).find("gpu_metrics"), std::string::npos);
  }
}

TEST(Amdgpu, BrokenFilesAreAbsent) {
  const DrmTree tree;
  tree.card("card0", "1002", "744c", "amdgpu", "0000:03:00.0");
  tree.device("card0", "gpu_busy_percent", "-1\n");
  tree.device("card0", "mem_info_vram_used", std::string(1 << 20, '7'));
  tree.device("card0", "mem_info_vram_total", "\xff\xfe\x00\n");
  tree.device("card0", "pp_dpm_sclk", "\n\n\n***");
  tree.hwmon("card0", "power1_average", "lots\n");
  tree.device("card0", "mem_busy_percent", "101\n");
  const auto backend = open();
  const OneReading r(*backend, 0, kSecond);
  EXPECT_EQ(r.error, "");
  EXPECT_TRUE(r.values.empty());
  EXPECT_FALSE(backend->devices()[0].constant(Metric::kMemoryTotal));
  EXPECT_FALSE(backend->devices()[0].name.empty());
  EXPECT_EQ(backend->why_absent(0, Metric::kUtilization), "gpu_busy_percent has an impossible value");
  EXPECT_EQ(backend->why_absent(0, Metric::kPower), "power1_average does not contain a number");
}

TEST(Amdgpu, CardThatVanishesIsAnError) {
  const DrmTree tree;
  add_mi300(tree, "card0", "0000:03:00.0");
  add_mi300(tree, "card1", "0000:43:00.0");
  const auto backend = open();
  EXPECT_EQ(OneReading(*backend, 1, kSecond).error, "");
  tree.remove("sys/class/drm/card1");
  EXPECT_EQ(OneReading(*backend, 1, 2 * kSecond).error, "the device is gone: card1 is no longer in sysfs");
  EXPECT_EQ(OneReading(*backend, 0, 2 * kSecond).error, "");
}

TEST(Amdgpu, ProcessesComeFromFdinfoAndKfd) {
  const DrmTree tree;
  tree.host();
  add_mi300(tree, "card0", "0000:c3:00.0");
  tree.client(100, 5, "drm-driver: amdgpu\ndrm-client-id: 1\ndrm-pdev: 0000:c3:00.0\ndrm-memory-vram: 1024 KiB\n"
                      "drm-engine-gfx: 5 ns\n");
  tree.write("sys/class/kfd/kfd/topology/nodes/0/gpu_id", "0\n");
  tree.write("sys/class/kfd/kfd/topology/nodes/1/gpu_id", "28851\n");
  tree.write("sys/class/kfd/kfd/topology/nodes/1/properties", "cpu_cores_count 0\nlocation_id 49920\ndomain 0\n");
  tree.write("sys/class/kfd/kfd/proc/100/vram_28851", "2097152\n");
  tree.write("sys/class/kfd/kfd/proc/200/vram_28851", "4194304\n");
  tree.write("sys/class/kfd/kfd/proc/201/vram_28851", "0\n");
  tree.write("sys/class/kfd/kfd/proc/202/vram_28851", "much\n");
  tree.write("sys/class/kfd/kfd/proc/nonsense/vram_28851", "1\n");
  const auto backend = open();
  const OneReading r(*backend, 0, kSecond);
  ASSERT_TRUE(r.reading.has_processes);
  ASSERT_EQ(r.reading.processes.size(), 2u);
  EXPECT_EQ(r.reading.processes[0].pid, 100);
  EXPECT_EQ(r.reading.processes[0].type, 'C');
  EXPECT_EQ(r.reading.processes[0].memory_bytes, 2 << 20);
  EXPECT_EQ(r.reading.processes[1].pid, 200);
  EXPECT_EQ(r.reading.processes[1].memory_bytes, 4 << 20);
}

TEST(Amdgpu, FactsForPeople) {
  const DrmTree tree;
  add_mi300(tree, "card0", "0000:03:00.0");
  const auto backend = open();
  std::map<std::string, Fact> facts;
  for (const Fact& f : backend->device_facts(0)) facts[f.id] = f;
  EXPECT_EQ(facts["pcie_width"].value, "8");
  EXPECT_EQ(facts["pcie_width_max"].value, "16");
  EXPECT_EQ(facts["power_limit_w"].value, "750");
  EXPECT_EQ(facts["pcie_generation_max"].value, "5");
  EXPECT_EQ(facts["pcie_generation"].reason, "no readable current_link_speed");
  EXPECT_EQ(facts["gpu_metrics"].value, "1.6");
  EXPECT_EQ(facts["ras_umc"].value, "1 uncorrected, 22 corrected");
  EXPECT_EQ(facts["bad_pages"].value, "2");
  EXPECT_EQ(facts.count("ras_sdma"), 0u);
  EXPECT_EQ(facts["vbios_version"].reason, "no readable vbios_version");
  for (const Fact& f : backend->system_facts()) EXPECT_EQ(f.value.empty(), !f.reason.empty()) << f.id;
}

}  // namespace
}  // namespace profgpu
