#include "app/words.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

TEST(RankList, IsReadInFull) {
  EXPECT_EQ(rank_ranges("0,3,8-11"), (RankRanges{{0, 0}, {3, 3}, {8, 11}}));
  for (const char* bad : {"", ",", "1,", "-1", "3-", "5-4", "a", "1 2", "0x1", "1-2-3", "99999999999", "+1"})
    EXPECT_FALSE(rank_ranges(bad)) << bad;
}

TEST(RankList, ChoosesWhatIsThere) {
  const std::vector<int> there = {0, 1, 2, 5, 9};
  EXPECT_EQ(*chosen_ranks({{1, 5}, {0, 1}}, there), (std::vector<int>{0, 1, 2, 5}));
  EXPECT_EQ(*chosen_ranks({{0, 2147483647}}, there), there);
  const auto absent = chosen_ranks({{0, 0}, {6, 8}}, there);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().message, "there is no rank 6-8");
  EXPECT_EQ(absent.error().hint, "ranks that were read: 0–2, 5, 9");
}

}  // namespace

namespace {

TEST(Suggestion, DistanceCountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("analyze", "anlyze"), 1u);
  EXPECT_EQ(edit_distance("analyze", "anaylze"), 1u) << "a swap of neighbours is one slip";
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(Suggestion, GuessesOnlyWhatIsNear) {
  const std::vector<std::string> names = {"analyze", "explain", "rules", "formats"};
  EXPECT_EQ(nearest("analyse", names), "analyze");
  EXPECT_EQ(nearest("form", names), "formats") << "a beginning is enough";
  EXPECT_EQ(nearest("run", names), "");
  EXPECT_EQ(nearest("", names), "");
  EXPECT_EQ(nearest(std::string(100000, 'a'), names), "");
}

}  // namespace

namespace {

TEST(SizeBytes, AsPeopleTypeThem) {
  constexpr double kGiB = 1 << 30;
  EXPECT_EQ(size_bytes("20GiB"), 20 * kGiB);
  EXPECT_EQ(size_bytes("20G"), 20 * kGiB);
  EXPECT_EQ(size_bytes("20gib"), 20 * kGiB);
  EXPECT_EQ(size_bytes("20GB"), 20e9);
  EXPECT_EQ(size_bytes("20480 MiB"), 20 * kGiB);
  EXPECT_EQ(size_bytes("1.5T"), 1536 * kGiB);
  EXPECT_EQ(size_bytes("4096"), 4096);
  EXPECT_EQ(size_bytes("4096B"), 4096);
  EXPECT_EQ(size_bytes("0"), 0);
}

TEST(SizeBytes, WhatIsNone) {
  for (const char* text : {"", "G", "GiB", "-1G", "1X", "1Gi", "1GiBx", "1.2.3G", "nan", "inf", "1e400", " 1G", "1G2"})
    EXPECT_FALSE(size_bytes(text)) << text;
}

}  // namespace

}  // namespace profgpu
