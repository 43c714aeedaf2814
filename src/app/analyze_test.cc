#include "app/analyze.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

std::vector<int> numbers(int count) {
  std::vector<int> out;
  for (int i = 0; i < count; ++i) out.push_back(i);
  return out;
}

TEST(PageRanks, OfASmallJobAreAll) {
  Job job;
  EXPECT_EQ(*page_ranks(numbers(8), &job, {}), numbers(8));
  EXPECT_EQ(*page_ranks({3}, nullptr, {}), std::vector<int>{3});
}

TEST(PageRanks, OfALargeOneAreTheUnusualBesideOthers) {
  Job job;
  for (const int rank : numbers(100)) job.step_mean_ns[rank] = rank == 70 ? 9 : rank == 60 ? 1 : 5;
  EXPECT_EQ(*page_ranks(numbers(100), &job, {}), (std::vector<int>{0, 1, 2, 3, 4, 5, 60, 70}));
  job.missing.emplace_back().rank = 50;
  for (const int rank : {90, 80}) job.stragglers.emplace_back().rank = rank;
  EXPECT_EQ(*page_ranks(numbers(100), &job, {}), (std::vector<int>{0, 1, 2, 50, 60, 70, 80, 90}));
  // Many late ones leave room for those that wait.
  for (int rank = 20; rank < 40; ++rank) job.stragglers.emplace_back().rank = rank;
  EXPECT_EQ(*page_ranks(numbers(100), &job, {}), (std::vector<int>{0, 1, 2, 20, 21, 60, 80, 90}));
}

TEST(PageRanks, AreThoseThatAreAskedFor) {
  Job job;
  EXPECT_EQ(*page_ranks(numbers(100), &job, RankRanges{{7, 7}, {98, 200}}), (std::vector<int>{7, 98, 99}));
  EXPECT_EQ(page_ranks(numbers(100), &job, RankRanges{{0, INT32_MAX}})->size(), 100U);
  EXPECT_FALSE(page_ranks(numbers(100), &job, RankRanges{{300, 301}}));
}

}  // namespace

}  // namespace profgpu
