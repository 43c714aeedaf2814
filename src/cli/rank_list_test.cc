#include "cli/rank_list.h"

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
  EXPECT_EQ(absent.error().hint, "those that were read: 0–2, 5, 9");
}

}  // namespace
}  // namespace profgpu
