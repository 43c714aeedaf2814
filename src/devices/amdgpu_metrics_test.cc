// The table of offsets against structures with the kernel's fields in the kernel's order, laid out by the compiler.
#include "devices/amdgpu_metrics.h"

#include <gtest/gtest.h>

#include <cstring>

#include "devices/drm_tree_test.h"

namespace profgpu {
namespace {

struct Header {
  uint16_t size;
  uint8_t format, content;
};
struct V1_1 {
  Header header;
  uint16_t edge, hotspot, memory_heat, vr_gfx, vr_soc, vr_memory, gfx_activity, memory_activity, mm_activity, power;
  uint64_t energy, system_clock;
  uint16_t average_clocks[7], gfx_clock, soc_clock, memory_clock, video_clocks[4];
  uint32_t throttle;
  uint16_t fan, width, speed, padding;
  uint32_t gfx_sum, memory_sum;
  uint16_t hbm[4];
};
struct V1_2 {
  V1_1 old;
  uint64_t firmware_time;
};
struct V1_3 {
  V1_1 old;
  uint64_t firmware_time;
  uint16_t voltages[3], padding;
  uint64_t throttle;
};
struct Links {
  uint16_t width, speed, xgmi_width, xgmi_speed;
  uint32_t gfx_sum, memory_sum;
};
struct Rates {
  uint64_t pcie_sum, pcie_now, recoveries, replays, rollovers;
};
struct Clocks {
  uint16_t gfx[8], soc[4], video[4], decode[4], memory, last;
};
struct V1_4 {
  Header header;
  uint16_t hotspot, memory_heat, vr, power, gfx_activity, memory_activity, vcn[4];
  uint64_t energy, system_clock;
  uint32_t throttle, lock;
  Links links;
  Rates rates;
  uint64_t xgmi_read[8], xgmi_write[8], firmware_time;
  Clocks clocks;
};
struct V1_5 {
  Header header;
  uint16_t hotspot, memory_heat, vr, power, gfx_activity, memory_activity, vcn[4], jpeg[32];
  uint64_t energy, system_clock;
  uint32_t throttle, lock;
  Links links;
  Rates rates;
  uint32_t naks_sent, naks_received;
  uint64_t xgmi_read[8], xgmi_write[8], firmware_time;
  Clocks clocks;
};
struct Rounds {
  uint32_t all, prochot, power, socket, vr, hbm;
};
struct Partition1_6 {
  uint32_t busy[8];
  uint16_t jpeg[32], vcn[4];
  uint64_t busy_sum[8];
};
struct Partition1_7 {
  Partition1_6 old;
  uint64_t below_limit[8];
};
struct Partition1_8 {
  uint32_t busy[8];
  uint16_t jpeg[40], vcn[4];
  uint64_t busy_sum[8], power[8], heat[8], idle[8], total[8];
};
struct V1_6 {
  Header header;
  uint16_t hotspot, memory_heat, vr, power, gfx_activity, memory_activity;
  uint64_t energy, system_clock;
  Rounds rounds;
  uint32_t lock;
  Links links;
  Rates rates;
  uint32_t naks_sent, naks_received;
  uint64_t xgmi_read[8], xgmi_write[8], firmware_time;
  Clocks clocks;
  Partition1_6 partitions[8];
  uint32_t recoveries;
};
template <class Partition>
struct V1_7 {
  Header header;
  uint16_t hotspot, memory_heat, vr, power, gfx_activity, memory_activity;
  uint64_t most_bandwidth, energy, system_clock;
  Rounds rounds;
  uint32_t lock;
  Links links;
  Rates rates;
  uint32_t naks_sent, naks_received;
  uint64_t xgmi_read[8], xgmi_write[8];
  uint16_t xgmi_status[8], padding;
  uint64_t firmware_time;
  Clocks clocks;
  Partition partitions[8];
  uint32_t recoveries;
};

class MetricsTest : public testing::Test {
 protected:
  template <class T>
  T ones(uint8_t content) {
    T table;
    std::memset(static_cast<void*>(&table), 0xff, sizeof table);
    const Header header{sizeof table, 1, content};
    std::memcpy(static_cast<void*>(&table), &header, sizeof header);
    return table;
  }
  template <class T>
  std::map<Metric, double> values(const T& table) {
    std::string bytes(sizeof table, '\0');
    std::memcpy(bytes.data(), &table, sizeof table);
    tree_.write("table", bytes);
    AmdgpuMetrics metrics(tree_.root() + "/table");
    Reading reading;
    reading.time_ns = 1;
    EXPECT_TRUE(metrics.read(reading)) << metrics.why_absent();
    std::map<Metric, double> values;
    for (const Sample& s : reading.samples) values[s.metric] = s.value;
    return values;
  }
  template <class T>
  void check_common(T table) {
    EXPECT_TRUE(values(table).empty()) << "what is all ones is not known";
    table.memory_heat = 51, table.power = 600, table.gfx_activity = 70, table.memory_activity = 30;
    table.energy = 65536 * 9;
    auto v = values(table);
    EXPECT_EQ(v[Metric::kMemoryTemperature], 51);
    EXPECT_EQ(v[Metric::kPower], 600);
    EXPECT_EQ(v[Metric::kUtilization], 70);
    EXPECT_EQ(v[Metric::kMemoryUtilization], 30);
    EXPECT_EQ(v[Metric::kEnergy], 9);
  }
  template <class T>
  void check_links(T table) {
    check_common(table);
    table.hotspot = 66, table.links.width = 8, table.links.speed = 160, table.rates.replays = 12;
    table.xgmi_read[0] = 5, table.xgmi_write[7] = 6;
    table.clocks.gfx[0] = 1000, table.clocks.gfx[7] = 2000, table.clocks.memory = 900;
    auto v = values(table);
    EXPECT_EQ(v[Metric::kTemperature], 66);
    EXPECT_EQ(v[Metric::kPcieWidth], 8);
    EXPECT_EQ(v[Metric::kPcieGeneration], 4);
    EXPECT_EQ(v[Metric::kPcieReplays], 12);
    EXPECT_EQ(v[Metric::kXgmiRx], 5 * 1024);
    EXPECT_EQ(v[Metric::kXgmiTx], 6 * 1024);
    EXPECT_EQ(v[Metric::kSmClock], 1500);
    EXPECT_EQ(v[Metric::kMemoryClock], 900);
  }
  /// Whether the six words of residencies are where we think: the second reading sees their differences.
  template <class T>
  void check_rounds(T table) {
    check_links(table);
    table.rounds = {1000, 0, 0, 0, 0, 0};
    const auto write = [&] {
      std::string bytes(sizeof table, '\0');
      std::memcpy(bytes.data(), &table, sizeof table);
      tree_.write("table", bytes);
    };
    write();
    AmdgpuMetrics metrics(tree_.root() + "/table");
    Reading reading;
    reading.time_ns = 1'000'000'000;
    metrics.read(reading);
    table.rounds = {2000, 100, 200, 10, 400, 30};
    write();
    reading.clear();
    reading.time_ns = 2'000'000'000;
    metrics.read(reading);
    std::map<Metric, double> v;
    for (const Sample& s : reading.samples) v[s.metric] = s.value;
    EXPECT_DOUBLE_EQ(v[Metric::kThrottleHwThermal], 0.1e9);
    EXPECT_DOUBLE_EQ(v[Metric::kThrottlePower], 0.2e9);
    EXPECT_DOUBLE_EQ(v[Metric::kThrottleThermal], 0.4e9) << "the hottest part";
  }

  DrmTree tree_;
};

TEST_F(MetricsTest, Revisions1And2And3) {
  check_common(ones<V1_1>(1));
  V1_1 one = ones<V1_1>(1);
  one.edge = 44, one.width = 16, one.speed = 320, one.gfx_clock = 1234, one.memory_clock = 1600;
  auto v = values(one);
  EXPECT_EQ(v[Metric::kTemperature], 44);
  EXPECT_EQ(v[Metric::kPcieWidth], 16);
  EXPECT_EQ(v[Metric::kPcieGeneration], 5);
  EXPECT_EQ(v[Metric::kSmClock], 1234);
  EXPECT_EQ(v[Metric::kMemoryClock], 1600);
  V1_2 two = ones<V1_2>(2);
  two.old.power = 55;
  EXPECT_EQ(values(two)[Metric::kPower], 55);
  V1_3 three = ones<V1_3>(3);
  three.throttle = 1ull << 40;
  EXPECT_EQ(values(three)[Metric::kClockEventReasons], 0x20);
  three.throttle = 0;
  EXPECT_EQ(values(three).at(Metric::kClockEventReasons), 0);
}

TEST_F(MetricsTest, Revisions4To8) {
  check_links(ones<V1_4>(4));
  check_links(ones<V1_5>(5));
  check_rounds(ones<V1_6>(6));
  check_rounds(ones<V1_7<Partition1_7>>(7));
  check_rounds(ones<V1_7<Partition1_8>>(8));
}

}  // namespace
}  // namespace profgpu
