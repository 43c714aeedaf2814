// The Intel backend against trees of sysfs: an Arc under xe, one under i915, an integrated one, and broken ones.
#include <gtest/gtest.h>

#include "devices/backend.h"
#include "devices/drm_tree_test.h"

namespace profgpu {

extern const BackendKind kIntel;

namespace {

constexpr int64_t kSecond = 1'000'000'000;

void add_xe(const DrmTree& tree) {
  tree.card("card1", "8086", "e20b", "xe", "0000:04:00.0");
  tree.hwmon("card1", "energy1_input", "5000000000\n");
  tree.hwmon("card1", "power1_max", "190000000\n");
  tree.hwmon("card1", "power1_rated_max", "195000000\n");
  tree.hwmon("card1", "temp2_label", "pkg\n");
  tree.hwmon("card1", "temp2_input", "58000\n");
  tree.hwmon("card1", "temp3_label", "vram\n");
  tree.hwmon("card1", "temp3_input", "64000\n");
  tree.hwmon("card1", "fan1_input", "1430\n");
  tree.device("card1", "tile0/physical_vram_size_bytes", "12884901888\n");
  tree.device("card1", "tile0/gt0/freq0/act_freq", "2350\n");
  tree.device("card1", "tile0/gt0/freq0/rp0_freq", "2850\n");
  tree.device("card1", "tile0/gt0/freq0/throttle/status", "1\n");
  tree.device("card1", "tile0/gt0/freq0/throttle/reason_pl1", "1\n");
  tree.device("card1", "tile0/gt0/freq0/throttle/reason_pl4", "0\n");
  tree.device("card1", "tile0/gt0/freq0/throttle/reason_thermal", "1\n");
}

std::string xe_client(int64_t cycles, int64_t total) {
  return "drm-driver:\txe\ndrm-client-id:\t7\ndrm-pdev:\t0000:04:00.0\ndrm-resident-vram0:\t1024 "
         "MiB\ndrm-cycles-ccs:\t" +
         std::to_string(cycles) + "\ndrm-total-cycles-ccs:\t" + std::to_string(total) + "\ndrm-cycles-rcs:\t0\n" +
         "drm-total-cycles-rcs:\t" + std::to_string(total) + "\n";
}

std::unique_ptr<Backend> open() {
  auto backend = kIntel.open({});
  EXPECT_TRUE(backend) << (backend ? "" : backend.error().message);
  return backend ? std::move(*backend) : nullptr;
}

TEST(Intel, NoCardIsAnError) {
  const DrmTree tree;
  const auto backend = kIntel.open({});
  ASSERT_FALSE(backend);
  EXPECT_NE(backend.error().message.find("no Intel card"), std::string::npos);
}

TEST(Intel, ArcUnderXe) {
  const DrmTree tree;
  tree.host();
  add_xe(tree);
  tree.client(300, 4, xe_client(0, 1'000'000));
  const auto backend = open();
  const DeviceInfo& info = backend->devices()[0];
  EXPECT_EQ(info.vendor, "Intel");
  EXPECT_FALSE(info.name.empty());
  EXPECT_EQ(info.driver_version, "xe 6.12.0-test");
  EXPECT_EQ(info.constant(Metric::kMemoryTotal), 12884901888.0);
  EXPECT_EQ(info.constant(Metric::kSmClockMax), 2850);
  EXPECT_EQ(info.constant(Metric::kPowerLimitDefault), 195);

  const OneReading first(*backend, 0, kSecond);
  EXPECT_EQ(first[Metric::kEnergy], 5000);
  EXPECT_FALSE(first[Metric::kPower]) << "power takes two readings";
  EXPECT_FALSE(first[Metric::kUtilization]);
  EXPECT_EQ(backend->why_absent(0, Metric::kUtilization), "available after one second");
  EXPECT_EQ(first[Metric::kSmClock], 2350);
  EXPECT_EQ(first[Metric::kTemperature], 58);
  EXPECT_EQ(first[Metric::kMemoryTemperature], 64);
  EXPECT_EQ(first[Metric::kPowerLimit], 190);
  EXPECT_EQ(first[Metric::kClockEventReasons], 4 | 0x40);
  EXPECT_EQ(first[Metric::kMemoryUsed], 1024.0 * (1 << 20));
  EXPECT_EQ(first[Metric::kMemoryFree], 11264.0 * (1 << 20));
  EXPECT_NE(backend->why_absent(0, Metric::kFanSpeed), "");

  tree.hwmon("card1", "energy1_input", "5150000000\n");
  tree.client(300, 4, xe_client(700'000, 2'000'000));
  tree.device("card1", "tile0/gt0/freq0/throttle/status", "0\n");
  const OneReading second(*backend, 0, 2 * kSecond);
  EXPECT_DOUBLE_EQ(*second[Metric::kPower], 150);
  EXPECT_DOUBLE_EQ(*second[Metric::kUtilization], 70);
  EXPECT_EQ(second[Metric::kClockEventReasons], 0);
  ASSERT_TRUE(second.reading.has_processes);
  ASSERT_EQ(second.reading.processes.size(), 1u);
  EXPECT_EQ(second.reading.processes[0].type, 'C');
  EXPECT_DOUBLE_EQ(*second.reading.processes[0].utilization_pct, 70);

  // The counter starts anew: no power from the difference, and none below zero.
  tree.hwmon("card1", "energy1_input", "1000\n");
  const OneReading third(*backend, 0, 3 * kSecond);
  EXPECT_FALSE(third[Metric::kPower]);
  EXPECT_TRUE(third[Metric::kEnergy]);
}

TEST(Intel, IdleIsKnownOnlyWhereNothingIsHidden) {
  const DrmTree tree;
  add_xe(tree);
  auto backend = open();
  OneReading(*backend, 0, kSecond);
  EXPECT_FALSE(OneReading(*backend, 0, 2 * kSecond)[Metric::kUtilization]);
  EXPECT_NE(backend->why_absent(0, Metric::kUtilization).find("no permission"), std::string::npos);
  tree.host();
  backend = open();
  OneReading(*backend, 0, kSecond);
  EXPECT_EQ(OneReading(*backend, 0, 2 * kSecond)[Metric::kUtilization], 0);
}

TEST(Intel, CardsUnderI915) {
  const DrmTree tree;
  tree.host();
  tree.card("card0", "8086", "56a0", "i915", "0000:03:00.0");
  tree.device("card0", "hwmon/hwmon1/name", "i915_gt0\n");   // of a part, not of the device
  tree.device("card0", "hwmon/hwmon1/energy1_input", "77\n");
  tree.hwmon("card0", "energy1_input", "123000000\n");
  tree.hwmon("card0", "power1_max", "0\n");
  tree.hwmon("card0", "temp1_input", "49000\n");
  tree.write("sys/class/drm/card0/gt/gt0/rps_act_freq_mhz", "2400\n");
  tree.write("sys/class/drm/card0/gt/gt0/rps_RP0_freq_mhz", "2400\n");
  tree.write("sys/class/drm/card0/gt/gt0/throttle_reason_status", "1\n");
  tree.write("sys/class/drm/card0/gt/gt0/throttle_reason_ratl", "1\n");
  tree.write("sys/class/drm/card0/lmem_total_bytes", "17179869184\n");
  tree.card("card1", "8086", "46a6", "i915", "0000:00:02.0");   // integrated: older files, no sensors
  tree.remove("sys/class/drm/card1/device/hwmon");
  tree.write("sys/class/drm/card1/gt_act_freq_mhz", "350\n");
  tree.write("sys/class/drm/card1/gt_RP0_freq_mhz", "1400\n");
  const auto i915 = [](int64_t ns) {
    return "drm-driver: i915\ndrm-client-id: 4\ndrm-pdev: 0000:03:00.0\ndrm-total-local0: 3 MiB\ndrm-engine-render: " +
           std::to_string(ns) + " ns\ndrm-engine-video: 5 ns\n";
  };
  tree.client(300, 4, i915(0));
  const auto backend = open();
  ASSERT_EQ(backend->devices().size(), 2u);
  EXPECT_EQ(backend->devices()[0].pci_bus_id, "00000000:00:02.0");
  const OneReading integrated(*backend, 0, kSecond);
  EXPECT_EQ(integrated[Metric::kSmClock], 350);
  EXPECT_EQ(backend->devices()[0].constant(Metric::kSmClockMax), 1400);
  EXPECT_FALSE(integrated[Metric::kPower]);
  EXPECT_EQ(backend->why_absent(0, Metric::kPower), "the kernel's driver has no energy1_input for this device");
  OneReading first(*backend, 1, kSecond);
  EXPECT_EQ(first[Metric::kEnergy], 123);
  EXPECT_EQ(first[Metric::kTemperature], 49);
  EXPECT_FALSE(first[Metric::kPowerLimit]) << "0 W is no limit";
  EXPECT_EQ(first[Metric::kClockEventReasons], 0x20);
  tree.client(300, 4, i915(250'000'000));
  const OneReading second(*backend, 1, 2 * kSecond);
  EXPECT_EQ(second[Metric::kUtilization], 25);
  EXPECT_EQ(second[Metric::kMemoryUsed], 3 << 20);
}

TEST(Intel, BrokenFilesAreAbsentAndAVanishedCardIsAnError) {
  const DrmTree tree;
  add_xe(tree);
  tree.hwmon("card1", "energy1_input", "\xff\n");
  tree.hwmon("card1", "temp2_input", "hot\n");
  tree.device("card1", "tile0/gt0/freq0/act_freq", "-3\n");
  tree.device("card1", "tile0/gt0/freq0/throttle/status", std::string(1 << 20, '1'));
  tree.device("card1", "tile0/physical_vram_size_bytes", "none\n");
  const auto backend = open();
  const OneReading r(*backend, 0, kSecond);
  EXPECT_EQ(r.error, "");
  EXPECT_FALSE(r[Metric::kEnergy]);
  EXPECT_FALSE(r[Metric::kTemperature]);
  EXPECT_FALSE(r[Metric::kSmClock]);
  EXPECT_FALSE(r[Metric::kClockEventReasons]);
  for (const Metric m :
       {Metric::kEnergy, Metric::kPower, Metric::kTemperature, Metric::kSmClock, Metric::kClockEventReasons})
    EXPECT_NE(backend->why_absent(0, m), "");
  tree.remove("sys/class/drm/card1");
  EXPECT_EQ(OneReading(*backend, 0, 2 * kSecond).error, "the device is gone: card1 is no longer in sysfs");
}

TEST(Intel, FactsForPeople) {
  const DrmTree tree;
  add_xe(tree);
  const auto backend = open();
  std::map<std::string, Fact> facts;
  for (const Fact& f : backend->device_facts(0)) facts[f.id] = f;
  EXPECT_EQ(facts["fan1"].value, "1430 revolutions per minute");
  EXPECT_EQ(facts["kernel_driver"].value, "xe");
  EXPECT_EQ(facts["power_critical_w"].reason, "no readable power1_crit");
  for (const Fact& f : backend->system_facts()) EXPECT_EQ(f.value.empty(), !f.reason.empty()) << f.id;
}

}  // namespace
}  // namespace profgpu
