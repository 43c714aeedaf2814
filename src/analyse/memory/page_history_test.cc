#include "analyse/memory/page_history.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "analyse/memory/lifetimes.h"
#include "analyse/memory/memory_categories.h"
#include "support/memory_snapshot_builder.h"

namespace profgpu {
namespace {

constexpr int64_t kMiB = 1 << 20;

/// What is held after the first `moment` events.
int64_t held(const PageHolds& holds, int64_t moment) {
  int64_t sum = 0;
  for (size_t i = 0; i < holds.made.size(); ++i)
    if (holds.made[i] <= moment && (holds.events[i] == 0 || moment < holds.made[i] + holds.events[i]))
      sum += holds.bytes[i];
  return sum;
}

TEST(PageHistory, AllocationsAddUpToTheLevelAfterEachEvent) {
  SnapshotBuilder b;
  b.alloc(0x1000, 100, SnapshotBuilder::kForward);
  b.free(0x9000, 70);  // made before the recording
  b.alloc(0x2000, 50, SnapshotBuilder::kBackward);
  b.free(0x1000, 100);
  b.alloc(0x1000, 30);
  b.segment(0, 0x1000, 4 * kMiB, {{0x1000, 512, 30}, {0x2000, 512, 50}, {0x5000, 512, 7}});
  const MemorySnapshot snapshot = b.finish();
  PageStrings strings;
  const auto page = page_snapshot(snapshot, strings);
  ASSERT_TRUE(page);
  ASSERT_EQ(page->histories.size(), 1u);
  const PageHistory& h = page->histories.front();
  EXPECT_EQ(h.all_events, 7);
  EXPECT_EQ(h.action.size(), 7u);
  EXPECT_TRUE(std::ranges::is_sorted(h.allocations.made));
  const MemoryHistory history = memory_histories(snapshot).front();
  LevelWalk walk(snapshot, history);
  EXPECT_EQ(held(h.allocations, 0), history.initial_bytes);
  for (MemoryLevel level; walk.next(level);)
    EXPECT_EQ(held(h.allocations, level.row - history.first + 1), level.allocated_bytes) << level.row;
  // The block of no event has the address that the snapshot says.
  const auto alive = std::ranges::find(h.allocations.bytes, 7) - h.allocations.bytes.begin();
  EXPECT_EQ(h.addresses[h.allocations.address[static_cast<size_t>(alive)]], 0x5000);
}

TEST(PageHistory, StacksAreOneTreeOutermostFirst) {
  SnapshotBuilder b;
  b.alloc(0x1000, 100, SnapshotBuilder::kForward);
  b.alloc(0x2000, 100, SnapshotBuilder::kOptimizer);
  b.alloc(0x3000, 100, SnapshotBuilder::kForward);
  b.alloc(0x4000, 100);
  const MemorySnapshot snapshot = b.finish();
  PageStrings strings;
  const auto page = page_snapshot(snapshot, strings);
  const PageStacks& s = page->stacks;
  const std::vector<uint32_t>& of = page->histories.front().stack;
  EXPECT_EQ(of[0], of[2]);
  EXPECT_NE(of[0], of[1]);
  EXPECT_EQ(of[3], 0u);
  EXPECT_EQ(s.parent.size(), 4u + 3u);   // main is called at two lines
  std::vector<std::string> names;
  for (uint32_t at = of[0]; at != 0; at = s.parent[at - 1]) {
    EXPECT_LT(s.parent[at - 1], at);
    names.push_back(strings[s.name[s.frame[at - 1]]]);
  }
  ASSERT_EQ(names.size(), 4u);
  EXPECT_EQ(names[1], "forward");
  EXPECT_EQ(names[3], "main");
  EXPECT_EQ(s.line[s.frame[of[0] - 1]], 0);
  EXPECT_EQ(page->histories.front().kind[0] / 3, static_cast<int>(MemoryCategory::kActivation));
}

TEST(PageHistory, SegmentsLiveFromOneEventToAnother) {
  SnapshotBuilder b;
  b.action(AllocationAction::kSegmentAlloc, 0x10000000, 20 * kMiB);
  b.action(AllocationAction::kSegmentFree, 0x90000000, 2 * kMiB);   // there from the start
  b.action(AllocationAction::kSegmentMap, 0x30000000, 4 * kMiB);
  b.action(AllocationAction::kSegmentUnmap, 0x30000000, 2 * kMiB);  // half of it
  b.segment(0, 0x10000000, 20 * kMiB, {});
  b.segment(0, 0x30000000 + 2 * kMiB, 2 * kMiB, {});
  MemorySnapshot snapshot = b.finish();
  PageStrings strings;
  const auto page = page_snapshot(snapshot, strings);
  const PageHistory& h = page->histories.front();
  ASSERT_EQ(h.segments.made.size(), 4u);
  const std::vector<int64_t> expected = {2, 22, 20, 24, 22};
  for (int64_t moment = 0; moment <= 4; ++moment)
    EXPECT_EQ(held(h.segments, moment), expected[static_cast<size_t>(moment)] * kMiB) << moment;
  EXPECT_EQ(h.streams, std::vector<std::string>{"0"});
  snapshot.cut = true;   // some were taken in the part that is missing
  EXPECT_TRUE(page_snapshot(snapshot, strings)->histories.front().segments.made.empty());
}

TEST(PageHistory, OfALongHistoryTheEventsAroundThePeakAreKept) {
  SnapshotBuilder b;
  b.alloc(0x1000, 1);                          // 0
  for (int i = 0; i < 10; ++i) b.alloc(0x10000 + 0x100u * static_cast<unsigned>(i), 10);   // 1 to 10
  b.alloc(0x2000, 1000);                       // 11: the peak
  b.free(0x2000, 1000);                        // 12, 13
  for (int i = 0; i < 10; ++i) b.free(0x10000 + 0x100u * static_cast<unsigned>(i), 10);   // 14 to 33
  const MemorySnapshot snapshot = b.finish();
  PageStrings strings;
  const auto page = page_snapshot(snapshot, strings, 8);
  const PageHistory& h = page->histories.front();
  EXPECT_EQ(h.all_events, 34);
  EXPECT_EQ(h.first, 7);
  EXPECT_EQ(h.action.size(), 8u);
  EXPECT_EQ(held(h.allocations, 0), 61);
  EXPECT_EQ(held(h.allocations, 11 - 7 + 1), 1101);
  EXPECT_EQ(held(h.allocations, 8), 101);
  EXPECT_EQ(h.allocations.made.front(), 0);
  EXPECT_TRUE(std::ranges::is_sorted(h.allocations.made));
}

}  // namespace
}  // namespace profgpu
