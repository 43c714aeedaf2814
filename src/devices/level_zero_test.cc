// Level Zero against a stand-in for its loader, and our declarations against its header where that is installed.
#include "devices/level_zero.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <thread>

#include "devices/drm_tree_test.h"
#if __has_include(<level_zero/zes_api.h>)
#include <level_zero/zes_api.h>
#define PROFGPU_HAS_ZES_HEADER
#endif

namespace profgpu {

extern const BackendKind kIntel;

namespace {

constexpr int64_t kSecond = 1'000'000'000;

#ifdef PROFGPU_HAS_ZES_HEADER
#define SAME_PLACE(ours, member, theirs, their_member)            \
  static_assert(offsetof(ours, member) == offsetof(theirs, their_member) && \
                sizeof(ours::member) == sizeof(theirs::their_member))
namespace lz = level_zero;
static_assert(sizeof(lz::PciProperties) == sizeof(zes_pci_properties_t));
SAME_PLACE(lz::PciProperties, domain, zes_pci_properties_t, address.domain);
SAME_PLACE(lz::PciProperties, function, zes_pci_properties_t, address.function);
SAME_PLACE(lz::PciProperties, max_bandwidth, zes_pci_properties_t, maxSpeed.maxBandwidth);
SAME_PLACE(lz::PciProperties, counts_bytes, zes_pci_properties_t, haveBandwidthCounters);
SAME_PLACE(lz::PciProperties, counts_replays, zes_pci_properties_t, haveReplayCounters);
static_assert(sizeof(lz::PciStats) == sizeof(zes_pci_stats_t));
SAME_PLACE(lz::PciStats, replays, zes_pci_stats_t, replayCounter);
SAME_PLACE(lz::PciStats, received, zes_pci_stats_t, rxCounter);
SAME_PLACE(lz::PciStats, transmitted, zes_pci_stats_t, txCounter);
static_assert(sizeof(lz::EngineProperties) == sizeof(zes_engine_properties_t));
SAME_PLACE(lz::EngineProperties, group, zes_engine_properties_t, type);
static_assert(sizeof(lz::EngineStats) == sizeof(zes_engine_stats_t));
SAME_PLACE(lz::EngineStats, active_us, zes_engine_stats_t, activeTime);
SAME_PLACE(lz::EngineStats, timestamp_us, zes_engine_stats_t, timestamp);
static_assert(sizeof(lz::MemoryProperties) == sizeof(zes_mem_properties_t));
SAME_PLACE(lz::MemoryProperties, location, zes_mem_properties_t, location);
static_assert(sizeof(lz::MemoryState) == sizeof(zes_mem_state_t));
SAME_PLACE(lz::MemoryState, free, zes_mem_state_t, free);
SAME_PLACE(lz::MemoryState, size, zes_mem_state_t, size);
static_assert(sizeof(lz::MemoryBandwidth) == sizeof(zes_mem_bandwidth_t));
SAME_PLACE(lz::MemoryBandwidth, read, zes_mem_bandwidth_t, readCounter);
SAME_PLACE(lz::MemoryBandwidth, written, zes_mem_bandwidth_t, writeCounter);
SAME_PLACE(lz::MemoryBandwidth, max_per_second, zes_mem_bandwidth_t, maxBandwidth);
SAME_PLACE(lz::MemoryBandwidth, timestamp_us, zes_mem_bandwidth_t, timestamp);
static_assert(lz::kPciPropertiesType == ZES_STRUCTURE_TYPE_PCI_PROPERTIES &&
              lz::kEnginePropertiesType == ZES_STRUCTURE_TYPE_ENGINE_PROPERTIES &&
              lz::kMemoryPropertiesType == ZES_STRUCTURE_TYPE_MEM_PROPERTIES &&
              lz::kMemoryStateType == ZES_STRUCTURE_TYPE_MEM_STATE);
static_assert(lz::kComputeAll == ZES_ENGINE_GROUP_COMPUTE_ALL &&
              lz::kComputeSingle == ZES_ENGINE_GROUP_COMPUTE_SINGLE &&
              lz::kRenderSingle == ZES_ENGINE_GROUP_RENDER_SINGLE &&
              lz::kRenderComputeAll == ZES_ENGINE_GROUP_3D_RENDER_COMPUTE_ALL &&
              lz::kDeviceMemory == ZES_MEM_LOC_DEVICE);
#endif

class LevelZeroTest : public ::testing::Test {
 protected:
  void SetUp() override {
    tree_.card("card1", "8086", "e20b", "xe", "0000:04:00.0");
    tree_.device("card1", "tile0/physical_vram_size_bytes", "12884901888\n");
    ::setenv("PROFGPU_LEVEL_ZERO_LIBRARY", PROFGPU_LEVEL_ZERO_STUB, 1);
    ::setenv("PROFGPU_LEVEL_ZERO_SCENARIO", (tree_.root() + "/scenario").c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("PROFGPU_LEVEL_ZERO_LIBRARY"), ::unsetenv("PROFGPU_LEVEL_ZERO_SCENARIO");
  }
  void say(const std::string& text) { tree_.write("scenario", text); }

  void open() {
    auto opened = kIntel.open({});
    ASSERT_TRUE(opened) << opened.error().message;
    backend_ = std::move(*opened);
    OneReading(*backend_, 0, kSecond);
  }
  /// Reads once a second of its own clock until the metric is there.
  std::optional<double> until_it_says(Metric metric) {
    for (int i = 0; i < 6000; ++i) {
      now_ns_ += kSecond;
      if (const auto value = OneReading(*backend_, 0, now_ns_)[metric]) return value;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return std::nullopt;
  }
  OneReading next() { return {*backend_, 0, now_ns_ += kSecond}; }

  DrmTree tree_;
  std::unique_ptr<Backend> backend_;
  int64_t now_ns_ = kSecond;
};

TEST_F(LevelZeroTest, CountsOfTheWholeDevice) {
  const std::string place = "device 0:4:0.0\n";
  say("device 0:3:0.0\nengine 11 0 1\n" + place +
      "engine 4 0 1000\nengine 11 1000 2000000\nengine 3 9 9\nmemory 0 64 1 0 0 0 0\n"
      "memory 1 8000000000 6000000000 0 0 100000000000 1000000\npcie 100 200 3\n");
  open();
  EXPECT_EQ(until_it_says(Metric::kMemoryUsed), 2e9);
  EXPECT_FALSE(next()[Metric::kUtilization]) << "the counters stand still";
  say("device 0:3:0.0\nengine 11 0 1\n" + place +
      "engine 4 900000 1001000\nengine 11 251000 3000000\nengine 3 9 9\nmemory 0 64 1 0 0 0 0\n"
      "memory 1 8000000000 5000000000 20000000000 10000000000 100000000000 2000000\npcie 1100 2200 4\n");
  const OneReading then = next();
  EXPECT_DOUBLE_EQ(*then[Metric::kUtilization], 25) << "all engines that compute together, not one of them";
  EXPECT_DOUBLE_EQ(*then[Metric::kDramActive], 30);
  EXPECT_EQ(then[Metric::kMemoryUsed], 3e9);
  EXPECT_EQ(then[Metric::kMemoryFree], 5e9);
  EXPECT_EQ(then[Metric::kPcieRx], 1100);
  EXPECT_EQ(then[Metric::kPcieTx], 2200);
  EXPECT_EQ(then[Metric::kPcieReplays], 4);
  for (const Metric m : {Metric::kUtilization, Metric::kDramActive, Metric::kPcieRx, Metric::kMemoryUsed})
    EXPECT_EQ(backend_->why_absent(0, m), "");
  EXPECT_EQ(std::count_if(then.reading.samples.begin(), then.reading.samples.end(),
                          [](const Sample& s) { return s.metric == Metric::kMemoryUsed; }), 1);
}

TEST_F(LevelZeroTest, TheBusiestTile) {
  say("device 0:4:0.0\nengine 1 0 1000\nengine 1 0 1000\npcie 1 1 1\n");
  open();
  ASSERT_TRUE(until_it_says(Metric::kPcieRx));
  say("device 0:4:0.0\nengine 1 400 2000\nengine 1 700 2000\npcie 1 1 1\n");
  EXPECT_DOUBLE_EQ(*next()[Metric::kUtilization], 70);
  say("device 0:4:0.0\nengine 1 100 3000\nengine 1 200 3000\npcie 1 1 1\n");
  EXPECT_FALSE(next()[Metric::kUtilization]) << "counters that go back say nothing";
  say("device 0:4:0.0\nengine 1 9999999 4000\nengine 1 300 4000\npcie 1 1 1\n");
  EXPECT_DOUBLE_EQ(*next()[Metric::kUtilization], 100);
  say("fail zesEngineGetActivity 0x70010000\ndevice 0:4:0.0\nengine 1 9999999 4000\nengine 1 300 4000\npcie 1 1 1\n");
  EXPECT_FALSE(next()[Metric::kUtilization]);
}

TEST_F(LevelZeroTest, WhyItSaysNothing) {
  struct Case {
    const char* scenario;
    const char* says;
  };
  for (const Case& c : {Case{"fail zesInit 0x78000001\n", "no Intel driver for it is installed"},
                        Case{"fail zesInit 0x70010000\n", "cannot be used: no permission"}, Case{"", "has no device"}}) {
    say(c.scenario);
    open();
    std::string why;
    for (int i = 0; i < 6000 && why.find(c.says) == why.npos; ++i) {
      next();
      why = backend_->why_absent(0, Metric::kUtilization);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_NE(why.find(c.says), why.npos) << why;
    EXPECT_NE(why.find("no permission to see other users'"), why.npos) << why;
  }
  ::setenv("PROFGPU_LEVEL_ZERO_LIBRARY", "/nowhere/libze_loader.so.1", 1);
  LevelZero none;
  none.start();
  for (int i = 0; i < 6000 && none.why().find("nowhere") == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(none.why(), "the Level Zero loader is missing (/nowhere/libze_loader.so.1)");
  EXPECT_EQ(none.device("0000:04:00.0"), nullptr);
}

TEST_F(LevelZeroTest, AShortWatchDoesNotOpenIt) {
  say("device 0:4:0.0\npcie 1 1 1\n");
  open();
  for (int i = 1; i < 5; ++i) {
    OneReading(*backend_, 0, kSecond + i * 100'000'000);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(backend_->why_absent(0, Metric::kPcieRx), "xe does not report it");
}

TEST_F(LevelZeroTest, AnOpeningThatHangsHoldsNobodyUp) {
  say("hang zesInit 3000\ndevice 0:4:0.0\npcie 1 1 1\n");
  open();
  const int64_t begun_ns = monotonic_ns();
  next(), next();
  EXPECT_LT(monotonic_ns() - begun_ns, 2 * kSecond);
  EXPECT_EQ(until_it_says(Metric::kPcieRx), 1);
}

}  // namespace
}  // namespace profgpu
