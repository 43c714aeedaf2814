// What steps take: with the work that they launched, and without what was queued before them.
#include "analyse/rank/steps.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/hand_trace.h"

namespace profgpu {
namespace {

std::vector<int64_t> elapsed_us(HandTrace& hand) {
  const Trace trace = hand.build();
  const Facts facts(trace, {});
  std::vector<int64_t> all;
  for (const Step& step : facts.get<Steps>().steps) all.push_back(step.elapsed.length() / 1000);
  return all;
}

// The device is 500 us behind the host, which launches a kernel of 1000 us in each step of 1000 us. A recording that
// begins within the queue lacks the launches of what was queued before.
TEST(StepsTest, TheFirstOneBeginsWhenEarlierWorkIsDone) {
  for (const bool launch_recorded : {true, false}) {
    HandTrace t;
    if (launch_recorded) t.kernel("k", -990, -980, -500, 500);
    else t.orphan("k", -500, 500);
    for (int64_t at = 0; at < 3000; at += 1000)
      t.range("ProfilerStep#" + std::to_string(at / 1000), at, at + 1000)
          .kernel("k", at + 10, at + 20, at + 500, at + 1500);
    EXPECT_EQ(elapsed_us(t), (std::vector<int64_t>{1000, 1000, 1000})) << launch_recorded;
  }
}

// A host that is slower than the device sets the pace.
TEST(StepsTest, TheFirstOneTakesNoLessThanItsRange) {
  HandTrace t;
  t.kernel("k", -990, -980, -500, 500).range("ProfilerStep#1", 0, 1000).kernel("k", 10, 20, 500, 1100);
  EXPECT_EQ(elapsed_us(t), std::vector<int64_t>{1000});
}

HandTrace loop_with(std::vector<int64_t> between_us) {
  HandTrace t;
  int64_t at = 0;
  between_us.push_back(0);
  for (size_t i = 0; i < between_us.size(); ++i) {
    t.range("train_step_" + std::to_string(i), at, at + 1000).kernel("k", at + 10, at + 20, at + 25, at + 990);
    at += 1000 + between_us[i];
  }
  return t;
}

TEST(StepsTest, RegularTimeBetweenRangesBelongsToTheLoop) {
  HandTrace regular = loop_with({3000, 3100, 2900}), once = loop_with({0, 0, 9000, 0}), two = loop_with({1500}),
            far = loop_with({2500});
  EXPECT_EQ(elapsed_us(regular), (std::vector<int64_t>{1000, 4000, 4100, 3900}));
  EXPECT_EQ(elapsed_us(once), (std::vector<int64_t>{1000, 1000, 1000, 1000, 1000})) << "such as an evaluation";
  EXPECT_EQ(elapsed_us(two), (std::vector<int64_t>{1000, 2500}));
  EXPECT_EQ(elapsed_us(far), (std::vector<int64_t>{1000, 1000}));
}

std::vector<std::string> names_of_steps(HandTrace& hand) {
  const Trace trace = hand.build();
  const Facts facts(trace, {});
  std::vector<std::string> names;
  for (const Step& step : facts.get<Steps>().steps) names.push_back(step.name);
  return names;
}

TEST(StepsTest, RoundsWithoutRequestsAreNoSteps) {
  HandTrace t;
  t.range("step[DECODE bs=4]", 0, 1000).kernel("k", 10, 20, 25, 900);
  t.range("step[IDLE bs=0]", 1000, 1500).range("step[IDLE bs=0]", 1600, 2000);
  t.range("step[DECODE bs=4]", 2000, 3000).kernel("k", 2010, 2020, 2025, 2900);
  const Trace trace = t.build();
  const Facts facts(trace, {});
  const Steps& steps = facts.get<Steps>();
  EXPECT_EQ(steps.steps.size(), 2);
  ASSERT_EQ(steps.without_requests.size(), 1) << "with what lies between two of them";
  EXPECT_EQ(steps.without_requests.front().length(), 1'000'000);
}

TEST(StepsTest, DraftsBelongToTheRoundThatVerifiesThem) {
  HandTrace round, alone;
  for (HandTrace* t : {&round, &alone}) t->range("step[DRAFT_EXTEND_V2 bs=8]", 0, 300).kernel("d", 10, 20, 25, 200);
  round.range("step[TARGET_VERIFY bs=8]", 300, 900).kernel("k", 310, 320, 325, 800);
  EXPECT_EQ(names_of_steps(round), std::vector<std::string>{"step[TARGET_VERIFY bs=8]"});
  EXPECT_EQ(names_of_steps(alone), std::vector<std::string>{"step[DRAFT_EXTEND_V2 bs=8]"});
}

}  // namespace
}  // namespace profgpu
