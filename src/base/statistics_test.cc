#include "base/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace profgpu {
namespace {

using Values = std::vector<int64_t>;

TEST(Statistics, PercentilesLieBetweenValues) {
  EXPECT_FALSE(percentile({}, 50));
  EXPECT_EQ(percentile({7}, 95), 7);
  EXPECT_EQ(percentile({4, 1, 3, 2}, 50), 2.5);
  EXPECT_EQ(percentile({4, 1, 3, 2}, 100), 4);
  EXPECT_DOUBLE_EQ(percentile_of_sorted(std::vector<double>{0, 1}, 2.5), 0.025);
}

TEST(Statistics, MediansAreInTheMiddle) {
  EXPECT_EQ(upper_median(Values{4, 1, 3, 2}), 3);
  EXPECT_EQ(lower_median(Values{4, 1, 3, 2}), 2);
  EXPECT_EQ(upper_median(Values{3, 1, 2}), 2);
  EXPECT_EQ(lower_median(Values{3, 1, 2}), 2);
  std::vector<double> even = {4, 1, 3, 2}, odd = {5};
  EXPECT_EQ(median_of(even), 2.5);
  EXPECT_EQ(median_of(odd), 5);
}

TEST(Statistics, DeviationsAreTheSamples) {
  EXPECT_EQ(mean_of({1, 2, 6}), 3);
  EXPECT_EQ(standard_deviation({5}), 0);
  EXPECT_DOUBLE_EQ(standard_deviation({2, 4}), std::sqrt(2.0));
}

TEST(Statistics, SlopesIgnoreOutliers) {
  EXPECT_FALSE(theil_sen_slope({{1, 1}, {1, 2}}));
  EXPECT_EQ(theil_sen_slope({{0, 0}, {1, 2}, {2, 4}, {3, 100}, {4, 8}}), 2);
}

TEST(StudentT, IsThatOfTables) {
  EXPECT_NEAR(student_t(1), 12.706, 1e-3);
  EXPECT_NEAR(student_t(2), 4.303, 1e-3);
  EXPECT_NEAR(student_t(5), 2.571, 5e-3);
  EXPECT_NEAR(student_t(19), 2.093, 1e-3);
  EXPECT_NEAR(student_t(1000), 1.962, 1e-3);
}

TEST(Differs, ByWelch) {
  EXPECT_TRUE(differs({100, 1, 20}, {102, 1, 20}));
  EXPECT_FALSE(differs({100, 5, 20}, {102, 5, 20}));
  EXPECT_FALSE(differs({100, 0, 1}, {200, 0, 20}));   // one step
  EXPECT_TRUE(differs({100, 0, 3}, {101, 0, 3}));
}

}  // namespace
}  // namespace profgpu
