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

std::vector<int64_t> starts_of_steps(const Trace& trace) {
  const Facts facts(trace, {});
  std::vector<int64_t> starts;
  for (const Step& s : facts.get<Steps>().steps) starts.push_back(s.start_ns / 1000);
  return starts;
}

// A trace of kernels alone: its device saw the program's ranges.
TEST(StepsTest, WithoutTheHostTheDevicesRangesAreSteps) {
  HandTrace t;
  for (int64_t i = 0; i < 4; ++i) {
    t.device_range("ProfilerStep#" + std::to_string(i + 7), 1000 * i + 10, 1000 * i + 900);
    t.device_range("ProfilerStep#" + std::to_string(i + 7), 1000 * i + 920, 1000 * i + 950, 13);
    t.device_range("forward", 1000 * i + 20, 1000 * i + 500).orphan("k", 1000 * i + 10, 1000 * i + 950);
  }
  const Trace trace = t.build();
  const Facts facts(trace, {});
  const Steps& steps = facts.get<Steps>();
  EXPECT_TRUE(steps.annotated);
  ASSERT_EQ(steps.steps.size(), 4U);
  EXPECT_EQ(steps.steps[2].index, 9);
  EXPECT_EQ(steps.steps[2].start_ns, 2'010'000);
  EXPECT_EQ(steps.steps[2].duration_ns, 1'000'000) << "what the device waits for the next one is of the step";
  EXPECT_EQ(steps.steps[3].duration_ns, 940'000);
  EXPECT_FALSE(steps.steps[2].range.valid());
}

// With the host's calls, but without its ranges: the host is two steps ahead.
TEST(StepsTest, DevicesRangesBeginWhereTheirFirstLaunchDoes) {
  HandTrace t;
  for (int64_t i = 0; i < 4; ++i) {
    const int64_t host = 100 * i, device = 1000 * i + 500;
    t.device_range("ProfilerStep#" + std::to_string(i), device, device + (i == 2 ? 40 : 900));   // cut short
    t.kernel("a", host + 10, host + 15, device, device + 400).kernel("b", host + 50, host + 55, device + 410, device + 900);
  }
  const Trace trace = t.build();
  EXPECT_EQ(starts_of_steps(trace), (std::vector<int64_t>{10, 110, 210, 310}));
  const Facts facts(trace, {});
  const std::vector<Step>& steps = facts.get<Steps>().steps;
  EXPECT_EQ(steps[1].duration_ns, 100'000);
  EXPECT_EQ(steps[1].elapsed.end, 2'400'000) << "the work that it launched";
  EXPECT_EQ(steps[2].duration_ns, 100'000);
  EXPECT_EQ(steps[3].duration_ns, 45'000) << "to the last launch";
}

constexpr std::string_view kDecode = "execute_16_context_0(sq0sk0)_generation_16(sq16sk8209)";

// Steps of one name follow each other, and each is seen by two streams, of which one is behind.
TEST(StepsTest, AnEnginesStepsOfOneNameStayApart) {
  for (const bool numbered : {false, true}) {
    HandTrace t;
    for (int64_t i = 0; i < 5; ++i) {
      const auto id = static_cast<uint32_t>(numbered ? i + 1 : 0);
      t.device_range(kDecode, 1000 * i, 1000 * i + 980, 7, id).orphan("k", 1000 * i, 1000 * i + 980);
      t.device_range(kDecode, 1000 * i + 500, 1000 * i + 990 + (numbered ? 100 : 0), 13, id);
    }
    const Trace trace = t.build();
    EXPECT_EQ(starts_of_steps(trace), (std::vector<int64_t>{0, 1000, 2000, 3000, 4000})) << numbered;
    const Facts facts(trace, {});
    const Steps& steps = facts.get<Steps>();
    EXPECT_EQ(steps.steps[1].duration_ns, numbered ? 1'000'000 : 990'000);
    EXPECT_EQ(steps.steps[1].batch.kind, StepKind::kDecode);
    EXPECT_EQ(steps.steps[1].batch.tokens, 16);
    ASSERT_EQ(steps.of_engine.size(), 5U);
    EXPECT_TRUE(steps.of_engine[1].measured);
  }
}

// A recorder that ends each range with its first activity tells where steps begin, not where they end.
TEST(StepsTest, RangesThatAreCutShortEndWhereTheNextBegins) {
  HandTrace t;
  for (int64_t i = 0; i < 4; ++i) {
    t.device_range(kDecode, 1000 * i, 1000 * i + 10).orphan("a", 1000 * i, 1000 * i + 10);
    t.orphan("b", 1000 * i + 20, 1000 * i + 900);
  }
  const Trace trace = t.build();
  const Facts facts(trace, {});
  const std::vector<Step>& steps = facts.get<Steps>().steps;
  ASSERT_EQ(steps.size(), 4U);
  EXPECT_EQ(steps[1].duration_ns, 1'000'000);
  EXPECT_EQ(steps[3].duration_ns, 900'000);
}

TEST(StepsTest, DraftsSeenByTheDeviceBelongToTheirRound) {
  HandTrace t;
  for (int64_t i = 0; i < 3; ++i) {
    t.device_range("step[DRAFT_EXTEND_V2 bs=8]", 1000 * i, 1000 * i + 200).orphan("k", 1000 * i, 1000 * i + 900);
    t.device_range("step[TARGET_VERIFY bs=8]", 1000 * i + 210, 1000 * i + 900);
  }
  EXPECT_EQ(starts_of_steps(t.build()), (std::vector<int64_t>{210, 1210, 2210}));
}

TEST(StepsTest, RangesWithinAnotherAreNoSteps) {
  HandTrace t;
  for (int64_t i = 0; i < 3; ++i) {
    t.device_range("train_step_" + std::to_string(i), 1000 * i, 1000 * i + 900).orphan("k", 1000 * i, 1000 * i + 900);
    for (int64_t j = 0; j < 2; ++j) t.device_range("batch " + std::to_string(j), 1000 * i + 400 * j, 1000 * i + 400 * j + 300);
  }
  EXPECT_EQ(starts_of_steps(t.build()), (std::vector<int64_t>{0, 1000, 2000}));
}

TEST(StepsTest, TheHostsOwnRangesComeFirst) {
  HandTrace t;
  t.range("ProfilerStep#1", 0, 1000).kernel("k", 10, 20, 100, 1900).device_range("ProfilerStep#1", 100, 1900);
  const Trace trace = t.build();
  EXPECT_TRUE(trace.device_ranges.empty());
  const Facts facts(trace, {});
  EXPECT_EQ(facts.get<Steps>().steps.at(0).duration_ns, 1'000'000);
}

}  // namespace
}  // namespace profgpu
