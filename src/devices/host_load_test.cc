#include "devices/host_load.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/test_folder.h"

namespace profgpu {
namespace {

class HostLoadFiles : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const { root_.write(name, text); }
  const TestFolder root_;
};

TEST_F(HostLoadFiles, MemorySwapAndAverages) {
  write("meminfo",
        "MemTotal:       1000 kB\nMemFree:   100 kB\nMemAvailable:    400 kB\nSwapTotal:  50 kB\nSwapFree:  20 kB\n");
  write("loadavg", "12.50 8.00 0.25 3/912 4711\n");
  const HostLoad load = HostLoadWatch(root_.string()).look();
  EXPECT_GT(load.time_ns, 0);
  EXPECT_EQ(load.memory_bytes, 1000 * 1024);
  EXPECT_EQ(load.memory_used_bytes, 600 * 1024);
  EXPECT_EQ(load.swap_bytes, 50 * 1024);
  EXPECT_EQ(load.swap_used_bytes, 30 * 1024);
  EXPECT_EQ(load.load_1, 12.5);
  EXPECT_EQ(load.load_5, 8);
  EXPECT_EQ(load.load_15, 0.25);
  EXPECT_GE(load.cpus, 1);
}

TEST_F(HostLoadFiles, CpuTimeIsOfTheTimeSinceTheLookBefore) {
  HostLoadWatch watch(root_.string());
  write("stat", "cpu  100 0 50 800 50 0 0 0 90 0\ncpu0 1 2 3\n");
  EXPECT_FALSE(watch.look().cpu_pct);   // nothing before
  write("stat", "cpu  160 0 65 815 60 0 0 0 99 0\ncpu0 1 2 3\n");   // 100 ticks, 25 of them idle or waiting
  EXPECT_EQ(watch.look().cpu_pct, 75);
  EXPECT_FALSE(watch.look().cpu_pct);   // no tick since
  write("stat", "cpu  170 0 65 815 55 0 0 0 99 0\n");   // the wait for disks went back
  EXPECT_EQ(watch.look().cpu_pct, 100);
}

TEST_F(HostLoadFiles, WhatIsMissingOrDamagedIsAbsent) {
  HostLoadWatch watch(root_.string());
  watch.look();
  write("stat", "cpu  a b\n");
  write("meminfo", "MemTotal: lots\nMemAvailable: 3 kB\nSwapTotal: -4 kB\n");
  write("loadavg", "1.0\n");
  const HostLoad load = watch.look();
  EXPECT_FALSE(load.cpu_pct || load.memory_bytes || load.memory_used_bytes || load.swap_bytes || load.load_1);
}

}  // namespace
}  // namespace profgpu
