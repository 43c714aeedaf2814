#include "trace/intervals.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

const Intervals kNone;

TEST(Intervals, MergingSortsJoinsTouchingAndDropsEmpty) {
  EXPECT_EQ(merged({{30, 40}, {5, 5}, {0, 10}, {10, 12}, {11, 20}, {35, 36}}), (Intervals{{0, 20}, {30, 40}}));
  EXPECT_EQ(merged({{7, 3}}), kNone);
  EXPECT_EQ(merged({}), kNone);
}

TEST(Intervals, MergingKeepsTheLongerOfTwoThatStartTogether) {
  EXPECT_EQ(merged({{0, 100}, {0, 3}, {50, 60}, {100, 101}}), (Intervals{{0, 101}}));
}

TEST(Intervals, UnionJoinsWhatTouches) {
  EXPECT_EQ(unite({{0, 10}, {20, 30}}, {{10, 15}, {25, 40}}), (Intervals{{0, 15}, {20, 40}}));
  EXPECT_EQ(unite({{0, 100}}, {{10, 20}, {30, 40}}), (Intervals{{0, 100}}));
  EXPECT_EQ(unite({}, {{1, 2}}), (Intervals{{1, 2}}));
}

TEST(Intervals, IntersectionHasNoEmptyParts) {
  EXPECT_EQ(intersect({{0, 10}, {20, 30}}, {{10, 20}}), kNone);
  EXPECT_EQ(intersect({{0, 10}, {20, 30}}, {{5, 25}, {29, 50}}), (Intervals{{5, 10}, {20, 25}, {29, 30}}));
  EXPECT_EQ(intersect({{0, 10}}, {}), kNone);
}

TEST(Intervals, SubtractionCutsHolesAndEdges) {
  EXPECT_EQ(subtract({{0, 100}}, {{0, 10}, {20, 30}, {90, 120}}), (Intervals{{10, 20}, {30, 90}}));
  EXPECT_EQ(subtract({{0, 10}, {20, 30}, {40, 50}}, {{5, 45}}), (Intervals{{0, 5}, {45, 50}}));
  EXPECT_EQ(subtract({{0, 10}}, {{0, 10}}), kNone);
  EXPECT_EQ(subtract({{0, 10}}, {{-5, 0}, {10, 20}}), (Intervals{{0, 10}}));
}

TEST(Intervals, ClippingKeepsTheWindow) {
  const Intervals a = {{0, 10}, {20, 30}, {40, 50}};
  EXPECT_EQ(clipped(a, {5, 45}), (Intervals{{5, 10}, {20, 30}, {40, 45}}));
  EXPECT_EQ(clipped(a, {10, 20}), kNone);
  EXPECT_EQ(clipped(a, {22, 22}), kNone);
  EXPECT_EQ(overlap_length(a, {5, 45}), 20);
  EXPECT_EQ(overlap_length(a, {10, 20}), 0);
  EXPECT_EQ(overlap_length(a, {45, 5}), 0);
}

TEST(Intervals, FirstEndingAfterIsExclusive) {
  const Intervals a = {{0, 10}, {20, 30}};
  EXPECT_EQ(first_ending_after(a, -1), 0u);
  EXPECT_EQ(first_ending_after(a, 9), 0u);
  EXPECT_EQ(first_ending_after(a, 10), 1u);
  EXPECT_EQ(first_ending_after(a, 30), 2u);
}

TEST(Intervals, LengthsAddUp) { EXPECT_EQ(total_length({{-5, 5}, {1718000000000000123, 1718000000000000124}}), 11); }

}  // namespace
}  // namespace profgpu
