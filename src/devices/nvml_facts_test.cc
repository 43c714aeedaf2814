#include "devices/nvml_stage_test.h"

namespace profgpu {
namespace {

class NvmlFacts : public NvmlStage {
 protected:
  static const Fact* find(const std::vector<Fact>& facts, const std::string& id) {
    for (const Fact& f : facts)
      if (f.id == id) return &f;
    return nullptr;
  }
  static std::string text(const std::vector<Fact>& facts, const std::string& id) {
    const Fact* f = find(facts, id);
    return !f ? "no such fact" : f->value.empty() ? "unknown: " + f->reason : f->value;
  }
};

TEST_F(NvmlFacts, OfTheSystem) {
  open_file("two_h100.txt");
  const auto facts = backend->system_facts();
  EXPECT_EQ(text(facts, "driver_version"), "550.54.15");
  EXPECT_EQ(text(facts, "nvml_version"), "12.550.54.15");
  EXPECT_EQ(text(facts, "cuda_driver_version"), "12.4");
  EXPECT_NE(text(facts, "nvml_library").find("libnvidia-ml.so.1"), std::string::npos);
}

TEST_F(NvmlFacts, OfADevice) {
  open("device 0\nlinks 4 switch\nnvlink_errors 12\npersistence 0\ncompute_mode 3\npcie_gen 1\npcie_width 8\n"
       "remapped_pending 1\nrecovery 2\nreasons 68\necc_mode denied\n");
  const auto facts = backend->device_facts(0);
  EXPECT_EQ(text(facts, "persistence_mode"), "disabled");
  EXPECT_EQ(text(facts, "compute_mode"), "exclusive process");
  EXPECT_EQ(text(facts, "ecc_mode"), "unknown: no permission");
  EXPECT_EQ(text(facts, "mig_mode"), "disabled");
  EXPECT_EQ(text(facts, "pcie_generation"), "1");
  EXPECT_EQ(text(facts, "pcie_generation_max"), "5");
  EXPECT_EQ(text(facts, "pcie_width"), "8");
  EXPECT_EQ(text(facts, "pcie_width_max"), "16");
  EXPECT_EQ(text(facts, "remapped_rows_pending"), "1");
  EXPECT_EQ(text(facts, "retired_pages_pending"), "unknown: not supported by this device");
  EXPECT_EQ(text(facts, "recovery_action"), "reboot the node");
  EXPECT_EQ(text(facts, "clock_event_reasons"), "sw_power_cap, hw_thermal_slowdown");
  EXPECT_EQ(text(facts, "power_limit_w"), "700");
  EXPECT_EQ(text(facts, "nvlinks_active"), "4 of 18");
  EXPECT_EQ(text(facts, "nvlink_errors"), "12");
}

TEST_F(NvmlFacts, OfADeviceWithoutLinks) {
  open("device 0\n");
  EXPECT_EQ(text(backend->device_facts(0), "nvlinks_active"), "unknown: not supported by this device");
}

TEST_F(NvmlFacts, Topology) {
  open("near 0 1 10\nnear 0 2 20\nnear 1 2 30\nnear 0 3 50\ntopology 40\ndevice 0..3\n");
  const auto t = backend->topology();
  ASSERT_EQ(t.size(), 4U);
  EXPECT_EQ(t[0][0].kind, "X");
  EXPECT_EQ(t[0][1].kind, "PIX");
  EXPECT_EQ(t[2][0].kind, "PXB");
  EXPECT_EQ(t[1][2].kind, "PHB");
  EXPECT_EQ(t[0][3].kind, "SYS");
  EXPECT_EQ(t[3][2].kind, "NODE");
}

TEST_F(NvmlFacts, NvlinkBySwitchAndDirect) {
  open_file("two_h100.txt");
  EXPECT_EQ(backend->topology()[0][1].kind, "NV18");
  backend.reset();
  open("topology 50\ndevice 0..2\ndevice 0\nlinks 4 1\ndevice 1\nlinks 4 0\n");
  const auto t = backend->topology();
  EXPECT_EQ(t[0][1].kind, "NV4");
  EXPECT_EQ(t[1][0].kind, "NV4");
  EXPECT_EQ(t[0][2].kind, "SYS");
}

TEST_F(NvmlFacts, MigInstances) {
  open_file("mig.txt");
  ASSERT_EQ(backend->devices().size(), 4U);
  const DeviceInfo& m = backend->devices()[1];
  EXPECT_EQ(m.index, 0U);
  EXPECT_EQ(m.parent, 0U);
  EXPECT_EQ(m.label(), "0:1");
  EXPECT_EQ(m.mig_profile, "3g.40gb");
  EXPECT_EQ(m.uuid.substr(0, 4), "MIG-");
  EXPECT_EQ(m.compute_instance, 0U);
  EXPECT_EQ(m.constant(Metric::kMemoryTotal), 42278584320.0);
  EXPECT_FALSE(m.constant(Metric::kPowerLimitMax));
  EXPECT_EQ(backend->devices()[3].index, 1U);
  EXPECT_FALSE(backend->devices()[3].parent);

  const Reading r = read_all(1);
  EXPECT_EQ(value(r, Metric::kMemoryUsed), 17179869184.0);
  EXPECT_FALSE(value(r, Metric::kPower));
  EXPECT_FALSE(value(r, Metric::kXidErrors));
  EXPECT_EQ(backend->why_absent(1, Metric::kUtilization), "not reported for MIG instances");
  EXPECT_EQ(backend->why_absent(1, Metric::kPower), "not reported for MIG instances");
  pause_ms(60);
  EXPECT_EQ(value(read_all(1), Metric::kSmActive), 61.0) << "only GPM knows what an instance does";

  const Reading whole = read_all(0);
  EXPECT_EQ(value(whole, Metric::kPower), 310.0);
  EXPECT_FALSE(value(whole, Metric::kUtilization));
  EXPECT_EQ(backend->why_absent(0, Metric::kUtilization), "not reported for a GPU in MIG mode: see its instances");
  EXPECT_EQ(backend->topology()[1][0].kind, "X");
  EXPECT_EQ(text(backend->device_facts(1), "mig_mode"), "enabled");
}

TEST_F(NvmlFacts, ActivityCountersNeedTwoLooks) {
  open("device 0\ngpm_sm 71.5\ngpm_tensor 30\ngpm_pcie_rx 100\ngpm_fp64 unsupported\n");
  const Reading first = read_all();
  EXPECT_FALSE(value(first, Metric::kSmActive));
  pause_ms(60);
  const Reading r = read_all();
  const auto sm = all(r, Metric::kSmActive);
  ASSERT_EQ(sm.size(), 1U);
  EXPECT_EQ(sm[0].value, 71.5);
  EXPECT_EQ(sm[0].time_ns, first.time_ns) << "it holds for the time between the looks";
  EXPECT_EQ(value(r, Metric::kTensorActive), 30.0);
  EXPECT_EQ(value(r, Metric::kPcieRxRate), 100.0 * 1048576);
  EXPECT_FALSE(value(r, Metric::kFp64Active));
  EXPECT_EQ(backend->why_absent(0, Metric::kFp64Active), "not supported by this device");
}

TEST_F(NvmlFacts, ChipsWithoutActivityCounters) {
  open("device 0\ngpm 0\n");
  read_all();
  EXPECT_EQ(backend->why_absent(0, Metric::kSmActive), "not supported by this device");
}

}  // namespace
}  // namespace profgpu
