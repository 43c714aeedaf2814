#include "devices/selection.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <cstdlib>

namespace profgpu {
namespace {

std::vector<DeviceInfo> four() {
  std::vector<DeviceInfo> out;
  for (uint32_t i = 0; i < 4; ++i) {
    DeviceInfo d;
    d.index = i;
    d.vendor = "NVIDIA";
    d.name = "NVIDIA H100";
    d.uuid = "GPU-" + std::string(8, static_cast<char>('a' + i)) + "-0000";
    d.pci_bus_id = "00000000:" + std::to_string(i + 1) + "a:00.0";
    out.push_back(d);
  }
  DeviceInfo mig = out[3];
  mig.parent = 3;
  mig.gpu_instance = 7;
  mig.uuid = "MIG-1234";
  out.push_back(mig);
  return out;
}

class Selecting : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* v : {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"})
      unsetenv(v);
  }
  void TearDown() override { SetUp(); }
  static std::vector<uint32_t> of(const std::vector<std::string>& words) {
    auto s = select_devices(four(), words);
    return s ? s->devices : std::vector<uint32_t>{99};
  }
};
using V = std::vector<uint32_t>;

TEST_F(Selecting, ByIndexUuidPciIdAndAll) {
  EXPECT_EQ(of({"0"}), V({0}));
  EXPECT_EQ(of({"2,0"}), V({2, 0}));
  EXPECT_EQ(of({"2", "0", "2"}), V({2, 0}));
  EXPECT_EQ(of({"GPU-cccc"}), V({2}));
  EXPECT_EQ(of({"gpu-CCCC"}), V({2}));
  EXPECT_EQ(of({"00000000:2a:00.0"}), V({1}));
  EXPECT_EQ(of({"0000:2A:00.0"}), V({1}));
  EXPECT_EQ(of({"2a:00"}), V({1}));
  EXPECT_EQ(of({"3:7"}), V({4}));
  EXPECT_EQ(of({"MIG-1234"}), V({4}));
  EXPECT_EQ(of({"all"}), V({0, 1, 2, 3, 4}));
}

TEST_F(Selecting, AnUnknownDeviceIsAnErrorThatListsThem) {
  for (const char* word : {"7", "-1", "GPU-", "GPU-x", "cuda:9", "99:00.0", "1.5", "none", ","}) {
    auto s = select_devices(four(), {word});
    ASSERT_FALSE(s) << word;
    EXPECT_FALSE(s.error().hint.empty()) << word;
  }
}

TEST_F(Selecting, TheCommandsOwnViewIsTheDefault) {
  EXPECT_EQ(of({}), V({0, 1, 2, 3, 4}));
  setenv("CUDA_VISIBLE_DEVICES", "2,1", 1);
  EXPECT_EQ(of({}), V({2, 1}));
  EXPECT_EQ(select_devices(four(), {})->note, "CUDA_VISIBLE_DEVICES=2,1");
  EXPECT_EQ(of({"cuda:1"}), V({1}));
  EXPECT_EQ(of({"0"}), V({0})) << "asked by name, hidden or not";
  setenv("CUDA_VISIBLE_DEVICES", "GPU-bbbb,MIG-1234", 1);
  EXPECT_EQ(of({}), V({1, 4}));
  setenv("CUDA_VISIBLE_DEVICES", "1,-1,2", 1);
  EXPECT_EQ(of({}), V({1})) << "as CUDA does: nothing behind an invalid entry";
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  EXPECT_EQ(of({}), V({}));
}

TEST_F(Selecting, AnInstanceByItsOldName) {
  auto devices = four();
  const auto instance =
      std::find_if(devices.begin(), devices.end(), [](const DeviceInfo& d) { return d.parent.has_value(); });
  ASSERT_NE(instance, devices.end());
  instance->compute_instance = 0;
  const auto at = static_cast<uint32_t>(instance - devices.begin());
  const std::string name =
      "MIG-" + devices[*instance->parent].uuid + "/" + std::to_string(*instance->gpu_instance) + "/";
  setenv("CUDA_VISIBLE_DEVICES", (name + "0").c_str(), 1);
  EXPECT_EQ(select_devices(devices, {})->devices, V({at}));
  EXPECT_EQ(select_devices(devices, {name + "0"})->devices, V({at}));
  EXPECT_FALSE(select_devices(devices, {name + "1"}));
}

TEST_F(Selecting, EachVendorHasItsVariable) {
  auto devices = four();
  devices.resize(2);
  devices[1].vendor = "AMD";
  setenv("HIP_VISIBLE_DEVICES", "5", 1);
  EXPECT_EQ(select_devices(devices, {})->devices, V({0}));
  setenv("HIP_VISIBLE_DEVICES", "0", 1);
  EXPECT_EQ(select_devices(devices, {})->devices, V({0, 1}));
  EXPECT_FALSE(select_devices(devices, {"cuda:1"})) << "a program sees one vendor's";
}

// HIP counts what the runtime below it leaves, and takes CUDA's variable where its own is not set.
TEST_F(Selecting, OfAmdInTwoStages) {
  auto devices = four();
  devices.resize(4);
  for (DeviceInfo& d : devices) d.vendor = "AMD";
  setenv("ROCR_VISIBLE_DEVICES", "2,GPU-dddd", 1);
  EXPECT_EQ(select_devices(devices, {})->devices, V({2, 3}));
  setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  EXPECT_EQ(select_devices(devices, {})->devices, V({3}));
  setenv("HIP_VISIBLE_DEVICES", "0", 1);
  EXPECT_EQ(select_devices(devices, {})->devices, V({2}));
  EXPECT_EQ(select_devices(devices, {})->note, "ROCR_VISIBLE_DEVICES=2,GPU-dddd, HIP_VISIBLE_DEVICES=0");
  setenv("HIP_VISIBLE_DEVICES", "2", 1);
  EXPECT_EQ(select_devices(devices, {})->devices, V({})) << "two are left to choose from";
}

TEST_F(Selecting, TilesAreOnTheirCards) {
  auto devices = four();
  devices.resize(2);
  for (DeviceInfo& d : devices) d.vendor = "Intel";
  setenv("ZE_AFFINITY_MASK", "1.0,1.1", 1);
  EXPECT_EQ(select_devices(devices, {})->devices, V({1}));
  setenv("ZE_AFFINITY_MASK", "0", 1);
  EXPECT_EQ(select_devices(devices, {})->devices, V({0}));
  setenv("ZE_AFFINITY_MASK", "3", 1);
  EXPECT_EQ(select_devices(devices, {})->devices, V({0, 1})) << "a tile of one of them";
}

}  // namespace
}  // namespace profgpu
