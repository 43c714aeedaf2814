#include "analyse/rank/outside_memory.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

SampleLog log_of_two_devices() {
  SampleLog log;
  log.devices.resize(2);
  log.devices[1].constants = {{Metric::kMemoryTotal, 80.0 * kGiB}};
  log.series.push_back({1, Metric::kMemoryUsed, {10, 20, 30}, {20.0 * kGiB, 60.0 * kGiB, 50.0 * kGiB}});
  return log;
}

void add_process(SampleLog& log, int64_t pid, int64_t bytes, std::optional<int64_t> rank = {}) {
  ProcessSample process;
  process.pid = pid;
  process.memory_bytes = bytes;
  if (rank) {
    auto origin = std::make_shared<ProcessOrigin>();
    origin->rank = rank;
    process.origin = std::move(origin);
  }
  log.processes.push_back({10, 1, process});
}

SnapshotSection section_with_peak(std::optional<int64_t> reserved) {
  SnapshotSection section;
  section.peak.device = 0;
  section.devices.emplace_back().peak_reserved_bytes = reserved;
  return section;
}

TEST(OutsideMemory, IsWhatTheProcessHoldsBeyondWhatIsReserved) {
  SampleLog log = log_of_two_devices();
  add_process(log, 7, 40 * kGiB);
  add_process(log, 7, 42 * kGiB);
  const auto outside = outside_memory(log, 1, 0, section_with_peak(40 * kGiB));
  ASSERT_TRUE(outside);
  EXPECT_EQ(outside->capacity_bytes, 80 * kGiB);
  EXPECT_EQ(outside->used_bytes, 60 * kGiB);
  EXPECT_EQ(outside->process_bytes, 42 * kGiB);
  EXPECT_EQ(outside->own_bytes, 2 * kGiB);
  EXPECT_EQ(outside->other_bytes, 18 * kGiB);
}

TEST(OutsideMemory, OfSeveralProcessesTheRanksOwnCounts) {
  SampleLog log = log_of_two_devices();
  add_process(log, 7, 41 * kGiB, 3);
  add_process(log, 8, 11 * kGiB, 4);
  EXPECT_EQ(outside_memory(log, 1, 4, section_with_peak(10 * kGiB))->own_bytes, kGiB);
  const auto of_none = outside_memory(log, 1, 5, section_with_peak(10 * kGiB));
  ASSERT_TRUE(of_none);
  EXPECT_FALSE(of_none->process_bytes);
  EXPECT_FALSE(of_none->own_bytes);
}

TEST(OutsideMemory, WhatIsNotKnownIsAbsent) {
  SampleLog log = log_of_two_devices();
  EXPECT_FALSE(outside_memory(log, 0, 0, section_with_peak(1)));   // no samples of its memory
  EXPECT_FALSE(outside_memory(log, 9, 0, section_with_peak(1)));   // no such device
  add_process(log, 7, 40 * kGiB);
  EXPECT_FALSE(outside_memory(log, 1, 0, section_with_peak(std::nullopt))->own_bytes);
  // Samples that miss the peak say nothing of what is outside.
  EXPECT_FALSE(outside_memory(log, 1, 0, section_with_peak(41 * kGiB))->own_bytes);
}

}  // namespace
}  // namespace profgpu
