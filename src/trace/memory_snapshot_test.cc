#include "trace/memory_snapshot.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

TEST(PlaceColumn, WidensAtThePlaceThatDoesNotFitAndKeepsWhatItHas) {
  PlaceColumn column;
  std::vector<uint32_t> pushed;
  const auto push = [&](uint32_t place) { column.push_back(place), pushed.push_back(place); };
  for (uint32_t i = 0; i < 20'000; ++i) push(i % 7 == 0 ? PlaceColumn::kNone : 3 * i);
  push(UINT16_MAX - 1);
  EXPECT_EQ(column.memory_bytes(), 2 * pushed.size());
  push(UINT16_MAX);  // stands for none while it is narrow
  EXPECT_EQ(column.memory_bytes(), 4 * pushed.size());
  push(1);
  push(PlaceColumn::kNone);
  ASSERT_EQ(column.size(), pushed.size());
  for (size_t i = 0; i < pushed.size(); ++i) ASSERT_EQ(column[i], pushed[i]) << i;
}

TEST(PlaceColumn, MayBeginWide) {
  PlaceColumn column;
  column.push_back(70'000);
  column.push_back(2);
  EXPECT_EQ(column.size(), 2U);
  EXPECT_EQ(column[0], 70'000U);
  EXPECT_EQ(column[1], 2U);
}

TEST(AllocationEvents, ManyAddressesAndStacksAreKept) {
  AllocationEvents events;
  AllocationKind kind;
  kind.action = AllocationAction::kAlloc;
  const uint32_t number = events.kind(kind);
  constexpr uint32_t kEvents = 70'000;
  const auto stack_of = [](uint32_t i) { return i % 2 == 0 ? i : PlaceColumn::kNone; };
  for (uint32_t i = 0; i < kEvents; ++i)
    events.push({number, uint64_t{i} << 9, static_cast<int64_t>(i) * 512, 1'000'000'000 + i, stack_of(i)});
  events.push_copy(kEvents - 2);
  for (uint32_t i = 0; i < kEvents; ++i) {
    ASSERT_EQ(events.address(i), uint64_t{i} << 9);
    ASSERT_EQ(events.bytes(i), static_cast<int64_t>(i) * 512);
    ASSERT_EQ(events.stack(i), stack_of(i));
  }
  EXPECT_EQ(events.address(kEvents), events.address(kEvents - 2));
  EXPECT_EQ(events.stack(kEvents), kEvents - 2);
}

}  // namespace
}  // namespace profgpu
