#include "analyse/rules/step_trend.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

TEST(StepTrend, StepsThatGrowHaveOne) {
  std::vector<int64_t> durations;
  for (int64_t i = 0; i < 400; ++i) durations.push_back(1'000'000 + i * 200'000 + i * 7'919 % 500'000);
  const auto trend = step_trend(durations);
  ASSERT_TRUE(trend);
  EXPECT_NEAR(trend->slope_ns, 200'000, 2'000);
  EXPECT_NEAR(static_cast<double>(trend->first_ns), 11'000'000, 500'000);
  EXPECT_NEAR(static_cast<double>(trend->last_ns), 71'000'000, 500'000);
}

TEST(StepTrend, SlowStepsNowAndThenAreNone) {
  std::vector<int64_t> durations;
  for (int64_t i = 0; i < 100; ++i) durations.push_back(1'000'000 + i * 7'919 % 300'000 + (i % 10 == 9 ? 9'000'000 : 0));
  EXPECT_FALSE(step_trend(durations));
}

TEST(StepTrend, TwoLevelsAreNone) {   // a learning rate's restart, a longer sequence from one step on
  std::vector<int64_t> durations;
  for (int64_t i = 0; i < 100; ++i) durations.push_back((i < 50 ? 1'000'000 : 3'000'000) + i * 7'919 % 300'000);
  EXPECT_FALSE(step_trend(durations));
}

TEST(StepTrend, FewStepsAndSlightGrowthAreNone) {
  std::vector<int64_t> few, slight;
  for (int64_t i = 0; i < 15; ++i) few.push_back(1'000'000 * (i + 1));
  for (int64_t i = 0; i < 100; ++i) slight.push_back(1'000'000 + i * 4'000);
  EXPECT_FALSE(step_trend(few));
  EXPECT_FALSE(step_trend(slight));
}

}  // namespace
}  // namespace profgpu
