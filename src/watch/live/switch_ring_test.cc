#include "watch/live/switch_watch.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace profgpu {
namespace {

constexpr uint16_t kOut = PERF_RECORD_MISC_SWITCH_OUT, kPreempt = kOut | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;

// What the kernel does with a ring. Words are 32 bits.
struct KernelSide {
  explicit KernelSide(size_t size, uint64_t begin = 0) : data(size) {
    page.data_head = page.data_tail = begin;
  }
  void put(const void* bytes, size_t size) {
    for (size_t i = 0; i < size; ++i)
      data[(page.data_head + i) % data.size()] = static_cast<const uint8_t*>(bytes)[i];
    page.data_head += size;
  }
  void record(uint32_t type, uint16_t misc, std::vector<uint32_t> words) {
    const perf_event_header header{type, misc, static_cast<uint16_t>(sizeof header + words.size() * 4)};
    put(&header, sizeof header);
    put(words.data(), words.size() * 4);
  }
  void switched(uint16_t misc, uint32_t tid, uint32_t time_ns) {
    record(PERF_RECORD_SWITCH, misc, {1000, tid, time_ns, 0});
  }
  // A ring that begins where this one does.
  SwitchRing ring() { return {&page, data.data(), data.size()}; }

  perf_event_mmap_page page{};
  std::vector<uint8_t> data;
};

std::vector<SwitchRecord> taken(SwitchRing& ring) {
  std::vector<SwitchRecord> out;
  ring.look();
  for (; const SwitchRecord* r = ring.front(); ring.pop()) out.push_back(*r);
  ring.release();
  return out;
}

TEST(SwitchRing, every_kind_of_record) {
  KernelSide kernel(4096);
  SwitchRing ring = kernel.ring();
  EXPECT_TRUE(taken(ring).empty());
  kernel.record(PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC, {1000, 7, 0x6c6f6f74, 0, 1000, 7, 5, 0});
  kernel.switched(kOut, 7, 10);
  kernel.record(PERF_RECORD_FORK, 0, {1000, 1, 8, 7, 11, 0, 1000, 7, 11, 0});
  kernel.switched(0, 7, 20);
  kernel.switched(kPreempt, 8, 30);
  kernel.record(PERF_RECORD_LOST, 0, {99, 0, 12, 0, 1000, 8, 40, 0});
  kernel.record(PERF_RECORD_EXIT, 0, {1000, 1, 8, 7, 50, 0, UINT32_MAX, UINT32_MAX, 51, 0});
  const std::vector<SwitchRecord> all = taken(ring);
  ASSERT_EQ(all.size(), 5U);
  const auto is = [&](size_t i, SwitchRecord::Kind kind, uint32_t tid, int64_t time_ns) {
    EXPECT_EQ(all[i].kind, kind) << i;
    EXPECT_EQ(all[i].tid, tid) << i;
    EXPECT_EQ(all[i].pid, 1000U) << i;
    EXPECT_EQ(all[i].time_ns, time_ns) << i;
  };
  is(0, SwitchRecord::kBlocked, 7, 10);
  is(1, SwitchRecord::kScheduled, 7, 20);
  is(2, SwitchRecord::kPreempted, 8, 30);
  is(3, SwitchRecord::kLost, 8, 40);
  EXPECT_EQ(all[3].lost, 12U);
  is(4, SwitchRecord::kEnded, 8, 51);
}

TEST(SwitchRing, records_across_the_end_of_the_memory) {
  // Wherever the first begins, one of 24 bytes lies across the end in each round of a ring of 128.
  KernelSide kernel(128);
  SwitchRing ring = kernel.ring();
  for (uint32_t i = 0; i < 1000; ++i) {
    kernel.switched(i % 2 == 0 ? kOut : 0, i, i * 3);
    if (i % 5 == 4) {
      const std::vector<SwitchRecord> five = taken(ring);
      ASSERT_EQ(five.size(), 5U) << i;
      for (uint32_t k = 0; k < 5; ++k) {
        EXPECT_EQ(five[k].tid, i - 4 + k);
        EXPECT_EQ(five[k].time_ns, (i - 4 + k) * 3);
      }
    }
  }
}

TEST(SwitchRing, room_is_given_back_when_asked_to) {
  KernelSide kernel(4096);
  SwitchRing ring = kernel.ring();
  kernel.switched(kOut, 1, 1);
  kernel.switched(0, 1, 2);
  ring.look();
  ASSERT_NE(ring.front(), nullptr);
  ring.pop();
  EXPECT_EQ(kernel.page.data_tail, 0U);
  ring.release();
  EXPECT_EQ(kernel.page.data_tail, 24U);
  kernel.switched(kOut, 2, 3);
  ASSERT_NE(ring.front(), nullptr);
  EXPECT_EQ(ring.front()->time_ns, 2);
  ring.pop();
  EXPECT_EQ(ring.front(), nullptr) << "what came after the look is not there yet";
  ring.look();
  ASSERT_NE(ring.front(), nullptr);
  EXPECT_EQ(ring.front()->tid, 2U);
}

TEST(SwitchRing, what_cannot_be_is_a_loss) {
  for (const uint16_t size : {0, 4, 7, 9, 25, 16, 64, 4096, 65528}) {
    KernelSide kernel(4096);
    SwitchRing ring = kernel.ring();
    kernel.switched(kOut, 1, 77);
    const perf_event_header header{PERF_RECORD_SWITCH, 0, size};
    kernel.put(&header, sizeof header);
    kernel.put("12345678", 8);
    const std::vector<SwitchRecord> all = taken(ring);
    ASSERT_EQ(all.size(), 2U) << size;
    EXPECT_EQ(all[1].kind, SwitchRecord::kLost);
    EXPECT_EQ(all[1].lost, 1U);
    EXPECT_EQ(all[1].time_ns, 77);
    EXPECT_EQ(kernel.page.data_tail, kernel.page.data_head);
    // And what follows is read again.
    kernel.switched(0, 1, 99);
    ASSERT_EQ(taken(ring).size(), 1U);
  }
  KernelSide kernel(4096);
  SwitchRing ring = kernel.ring();
  kernel.page.data_head = uint64_t{1} << 60;
  EXPECT_EQ(taken(ring).size(), 1U);
  kernel.page.data_head = 8;
  EXPECT_EQ(taken(ring).size(), 1U) << "the kernel's place went back";
}

TEST(SwitchRing, random_bytes_are_read_within_bounds) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 2000; ++round) {
    KernelSide kernel(256);
    for (uint8_t& b : kernel.data) b = static_cast<uint8_t>(random() % 3 == 0 ? random() : random() % 16);
    SwitchRing ring = kernel.ring();
    kernel.page.data_head = random() % 300;
    EXPECT_LE(taken(ring).size(), 256U / 8);
    EXPECT_EQ(kernel.page.data_tail, kernel.page.data_head);
  }
}

}  // namespace
}  // namespace profgpu
