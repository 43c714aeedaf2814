#include "app/analyze.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

std::vector<int> numbers(int count) {
  std::vector<int> out;
  for (int i = 0; i < count; ++i) out.push_back(i);
  return out;
}

Report report_of(Job job) {
  Report report;
  report.job = std::make_shared<Job>(std::move(job));
  return report;
}

TEST(PageRanks, OfASmallJobAreAll) {
  EXPECT_EQ(*page_ranks(numbers(8), report_of({}), {}), numbers(8));
  EXPECT_EQ(*page_ranks({3}, Report(), {}), std::vector<int>{3});
}

TEST(PageRanks, OfALargeOneAreTheUnusualBesideOthers) {
  Job job;
  for (const int rank : numbers(100)) job.step_mean_ns[rank] = rank == 70 ? 9 : rank == 60 ? 1 : 5;
  EXPECT_EQ(*page_ranks(numbers(100), report_of(job), {}), (std::vector<int>{0, 1, 2, 3, 4, 5, 60, 70}));
  job.missing.emplace_back().rank = 50;
  for (const int rank : {90, 80}) job.stragglers.emplace_back().rank = rank;
  EXPECT_EQ(*page_ranks(numbers(100), report_of(job), {}), (std::vector<int>{0, 1, 2, 50, 60, 70, 80, 90}));
  // Many late ones leave room for those that wait.
  for (int rank = 20; rank < 40; ++rank) job.stragglers.emplace_back().rank = rank;
  EXPECT_EQ(*page_ranks(numbers(100), report_of(job), {}), (std::vector<int>{0, 1, 2, 20, 21, 60, 80, 90}));
}

TEST(PageRanks, OfALargeOneAreThoseThatThePageSpeaksOf) {
  Job job;
  for (const int rank : numbers(40)) job.step_mean_ns[rank] = 5;
  Report report = report_of(job);
  report.ranks.resize(40);
  for (const int rank : numbers(40)) report.ranks[static_cast<size_t>(rank)].rank = rank;
  report.focus = 30;
  report.findings.resize(4);
  report.findings[0].seen.rank = 23;
  report.findings[1].ranks = {17, 18};
  report.findings[2].ranks = {29, 30};   // seen on the rank in focus
  EXPECT_EQ(*page_ranks(numbers(40), report, {}), (std::vector<int>{0, 1, 2, 3, 4, 17, 23, 30}));
  // However many they are, one stands beside them.
  for (int rank = 10; rank < 20; ++rank) report.findings.emplace_back().seen.rank = rank;
  EXPECT_EQ(*page_ranks(numbers(40), report, {}), (std::vector<int>{0, 10, 11, 12, 13, 17, 23, 30}));
}

TEST(PageRanks, OfALargeJobWithoutStepsAreTheFirst) {
  EXPECT_EQ(*page_ranks(numbers(20), report_of({}), {}), numbers(8));
}

TEST(PageRanks, AreThoseThatAreAskedFor) {
  const Report report = report_of({});
  EXPECT_EQ(*page_ranks(numbers(100), report, RankRanges{{7, 7}, {98, 200}}), (std::vector<int>{7, 98, 99}));
  EXPECT_EQ(page_ranks(numbers(100), report, RankRanges{{0, INT32_MAX}})->size(), 100U);
  EXPECT_FALSE(page_ranks(numbers(100), report, RankRanges{{300, 301}}));
}

}  // namespace

}  // namespace profgpu
