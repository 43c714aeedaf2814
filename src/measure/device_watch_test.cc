#include "measure/device_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/clock.h"
#include "measure/host_nics.h"
#include "tests/support/test_folder.h"

namespace profgpu {
namespace {

// A device without errors at its first reading, which is the only one that has values.
class OnceRead : public Backend {
 public:
  [[nodiscard]] std::string_view name() const override { return "fake"; }
  [[nodiscard]] const std::vector<DeviceInfo>& devices() const override { return info_; }
  Status read(const ReadRequest&, Reading& reading) override {
    if (read_.exchange(true)) return ok();
    reading.add(Metric::kXidErrors, 0);
    reading.add(Metric::kEccUncorrected, 4);
    reading.add(Metric::kSmClock, 1500);
    return ok();
  }
  [[nodiscard]] std::string why_absent(uint32_t, Metric) const override { return {}; }

 private:
  std::vector<DeviceInfo> info_ = std::vector<DeviceInfo>(1);
  std::atomic<bool> read_ = false;
};

TEST(DeviceWatch, FaultsOfTheFirstMinutesAreNotForgotten) {
  DeviceWatch watch(std::make_shared<OnceRead>());
  for (int i = 0; i < 6000 && !watch.since(0, 0).sm_clock_mhz; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(watch.since(0, 0).sm_clock_mhz);
  const int64_t from_ns = unix_ns();
  for (int64_t i = 0; i < 20'000; ++i) {
    Reading reading;
    reading.time_ns = from_ns + i;
    reading.add(Metric::kXidErrors, 3);
    reading.add(Metric::kXidLast, 79);
    reading.add(Metric::kEccUncorrected, 5);
    watch.take(reading);
  }
  const DeviceFaults faults = watch.faults_since(0, from_ns);
  EXPECT_EQ(faults.xids, 3);
  EXPECT_EQ(faults.last_xid, 79);
  EXPECT_EQ(faults.ecc_uncorrected, 1);
}

// Devices with NVLinks or PCIe, as their kinds of links say.
class Linked : public Backend {
 public:
  Linked(std::vector<std::vector<std::string>> kinds, std::vector<int> active)
      : kinds_(std::move(kinds)), active_(std::move(active)), info_(kinds_.size()) {}
  [[nodiscard]] std::string_view name() const override { return "fake"; }
  [[nodiscard]] const std::vector<DeviceInfo>& devices() const override { return info_; }
  Status read(const ReadRequest&, Reading& reading) override {
    reading.add(Metric::kPcieGeneration, 4);
    reading.add(Metric::kPcieWidth, reading.device == 1 ? 8 : 16);
    reading.add(Metric::kMemoryUsed, 3e9);
    return ok();
  }
  [[nodiscard]] std::string why_absent(uint32_t, Metric) const override { return {}; }
  [[nodiscard]] std::vector<Fact> device_facts(uint32_t device) override {
    return {{"nvlinks_active", std::to_string(active_[device]) + " of 18", ""},
            {"nvlink_speed_mb_per_second", active_[device] > 0 ? "25000" : "", ""}};
  }
  [[nodiscard]] std::vector<std::vector<Link>> topology() override {
    std::vector<std::vector<Link>> all;
    for (const auto& row : kinds_) {
      all.emplace_back();
      for (const std::string& kind : row) all.back().push_back({kind});
    }
    return all;
  }

 private:
  std::vector<std::vector<std::string>> kinds_;
  std::vector<int> active_;
  std::vector<DeviceInfo> info_;
};

GroupLink link_of(std::vector<std::vector<std::string>> kinds, std::vector<int> active) {
  std::vector<uint32_t> devices;
  for (uint32_t i = 0; i < kinds.size(); ++i) devices.push_back(i);
  return DeviceWatch(std::make_shared<Linked>(std::move(kinds), std::move(active))).link_of_group(devices);
}

TEST(DeviceWatch, WhatDevicesMoveDataOver) {
  const GroupLink switched = link_of({{"X", "NV18", "NV18"}, {"NV18", "X", "NV18"}, {"NV18", "NV18", "X"}}, {18, 18, 18});
  EXPECT_EQ(switched.link, "NV18");
  EXPECT_DOUBLE_EQ(switched.gbps.value_or(0), 450);
  EXPECT_DOUBLE_EQ(switched.next_gbps.value_or(0), 450);
  // Without switches, four links to each other device.
  const GroupLink mesh = link_of({{"X", "NV4", "NV4"}, {"NV4", "X", "NV4"}, {"NV4", "NV4", "X"}}, {12, 12, 12});
  EXPECT_EQ(mesh.link, "NV8");
  EXPECT_DOUBLE_EQ(mesh.gbps.value_or(0), 200);
  EXPECT_DOUBLE_EQ(mesh.next_gbps.value_or(0), 100);
  const GroupLink pcie = link_of({{"X", "PHB"}, {"PHB", "X"}}, {0, 0});
  EXPECT_EQ(pcie.link, "PCIe");
  EXPECT_NEAR(pcie.gbps.value_or(0), 15.75, 0.01) << "the slower device's";
  for (const char* other : {"SYS", "", "XGMI"})
    EXPECT_EQ(link_of({{"X", "NV4", other}, {"NV4", "X", other}, {other, other, "X"}}, {4, 4, 0}).link, "") << other;
  EXPECT_EQ(link_of({{"X"}}, {18}).link, "");
}

TEST(DeviceWatch, MemoryInUseFromNowOn) {
  const DeviceWatch watch(std::make_shared<Linked>(std::vector<std::vector<std::string>>{{"X"}}, std::vector<int>{0}));
  EXPECT_EQ(watch.memory_used_now(0), 3e9);
  const DeviceWatch silent(std::make_shared<OnceRead>());
  EXPECT_FALSE(silent.memory_used_now(0));
}

// A folder like /sys, with ports of network cards.
class Nics : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("PROFGPU_SYSFS_ROOT", root_.string().c_str(), 1);
    for (const char* name : {"NCCL_IB_HCA", "NCCL_IB_DISABLE", "NCCL_NET"}) ::unsetenv(name);
  }
  void TearDown() override { ::unsetenv("PROFGPU_SYSFS_ROOT"), ::unsetenv("NCCL_IB_HCA"); }
  void add(const std::string& card, const std::string& rate, const std::string& state = "4: ACTIVE") {
    const std::string port = "class/infiniband/" + card + "/ports/1/";
    root_.write(port + "rate", rate + '\n');
    root_.write(port + "state", state + '\n');
  }
  TestFolder root_;
};

TEST_F(Nics, ActivePortsOfTheHighestRateCount) {
  EXPECT_EQ(host_nics().count, 0);
  add("mlx5_0", "400 Gb/sec (4X NDR)"), add("mlx5_1", "400 Gb/sec (4X NDR)");
  add("mlx5_2", "100 Gb/sec (4X EDR)");   // for storage
  add("mlx5_3", "400 Gb/sec (4X NDR)", "1: DOWN"), add("odd", "many");
  const HostNics nics = host_nics();
  EXPECT_EQ(nics.count, 2);
  EXPECT_DOUBLE_EQ(nics.gbps, 100);
  const HostNics read = HostNics::of_word(nics.word());
  EXPECT_EQ(read.count, 2);
  EXPECT_DOUBLE_EQ(read.gbps, 100);
  ::setenv("NCCL_IB_HCA", "mlx5_0", 1);
  EXPECT_EQ(host_nics().count, 0) << "which are used is NCCL's to know";
}

TEST_F(Nics, WordsThatAreNone) {
  for (const char* word : {"", ":", "2", "2:x", "x:2", "-1:3", "2:-3", "2:inf", "2:nan"})
    EXPECT_EQ(HostNics::of_word(word).count, 0) << word;
}

}  // namespace
}  // namespace profgpu
