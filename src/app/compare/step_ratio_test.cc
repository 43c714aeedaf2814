#include "app/compare/step_ratio.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace profgpu {
namespace {

std::vector<int64_t> steps(std::mt19937_64& random, double mean_ns, double noise, int n) {
  std::vector<int64_t> out;
  for (int i = 0; i < n; ++i) {
    // Box-Muller, so that the numbers do not depend on the library.
    const double u = (static_cast<double>(random() >> 11) + 0.5) / 9007199254740992.0;
    const double v = static_cast<double>(random() >> 11) / 9007199254740992.0;
    out.push_back(std::llround(mean_ns * (1 + noise * std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v))));
  }
  return out;
}

TEST(StepRatio, ARunIsNoFasterThanItselfWhateverTheOrder) {
  std::mt19937_64 random(1);
  const std::vector<int64_t> a = steps(random, 1e8, 0.015, 20);
  std::vector<int64_t> b = a;
  std::shuffle(b.begin(), b.end(), random);
  const StepRatio same = step_ratio(a, a), shuffled = step_ratio(a, b);
  EXPECT_EQ(same.change, Change::kNone);
  EXPECT_DOUBLE_EQ(same.mean.value, 1);
  EXPECT_EQ(shuffled.change, Change::kNone);
  EXPECT_EQ(*same.mean.low, *shuffled.mean.low);
  EXPECT_EQ(*same.mean.high, *shuffled.mean.high);
}

TEST(StepRatio, ItsIntervalHoldsTheTruthAsOftenAsItSays) {
  std::mt19937_64 random(2);
  for (const int n : {5, 20}) {
    int outside = 0;
    for (int i = 0; i < 300; ++i) {
      const StepRatio r = step_ratio(steps(random, 1e8, 0.015, n), steps(random, 1e8, 0.015, n));
      outside += *r.mean.low > 1 || *r.mean.high < 1;
    }
    EXPECT_LE(outside, 300 * 0.08) << n;   // 5 % and what 300 tries may add
    EXPECT_GE(outside, 1) << n;            // an interval that always holds it says nothing
  }
}

TEST(StepRatio, FivePercentAreSeenInTwentySteps) {
  std::mt19937_64 random(3);
  int seen = 0;
  for (int i = 0; i < 100; ++i)
    seen += step_ratio(steps(random, 1e8, 0.015, 20), steps(random, 1.05e8, 0.015, 20)).change == Change::kSlower;
  EXPECT_GE(seen, 95);
}

TEST(StepRatio, SaysHowManyStepsWouldTell) {
  std::mt19937_64 random(4);
  const auto after = steps(random, 1.02e8, 0.05, 6), before = steps(random, 1e8, 0.05, 6);
  const StepRatio r = step_ratio(before, after);
  ASSERT_EQ(r.change, Change::kNone);
  ASSERT_TRUE(r.steps_needed);
  EXPECT_GT(*r.steps_needed, 6);
}

TEST(StepRatio, OneStepTellsNothingOfChance) {
  const StepRatio r = step_ratio({100}, {150});
  EXPECT_EQ(r.change, Change::kNone);
  EXPECT_DOUBLE_EQ(r.mean.value, 1.5);
  EXPECT_FALSE(r.mean.low);
  EXPECT_FALSE(r.steps_needed);
}

TEST(StepRatio, StepsWithoutNoiseTellAnyChange) {
  EXPECT_EQ(step_ratio({100, 100, 100}, {101, 101, 101}).change, Change::kSlower);
  EXPECT_EQ(step_ratio({100, 100, 100}, {99, 99, 99}).change, Change::kFaster);
  EXPECT_EQ(step_ratio({100, 100, 100}, {100, 100, 100}).change, Change::kNone);
}

}  // namespace
}  // namespace profgpu
