#include "analyse/rank/kept_events.h"

#include <gtest/gtest.h>

#include "tests/support/trace_rows.h"

namespace profgpu {
namespace {

using test::TraceRows;

// Steps of 100 ns and 10 events, numbered from 1; the seventh takes 290 and has 29.
Trace steps(int count) {
  TraceRows rows;
  int64_t at = 0;
  for (int s = 1; s <= count; ++s) {
    const int64_t length = s == 7 ? 290 : 100;
    rows.annotation("ProfilerStep#" + std::to_string(s), at, length);
    for (int64_t t = 5; t < length - 5; t += 10) rows.op("op", at + t, 5);
    at += length;
  }
  return rows.finish();
}

struct Kept {
  Kept(const Trace& trace, const StepChoice& choice, int64_t budget)
      : facts(trace, {}), events(kept_events({{0, &facts, 0}}, {0, trace.windows.front().end}, choice, budget)) {}
  Facts facts;
  KeptEvents events;
};

TEST(KeptEvents, AreAllWhereTheyFit) {
  const Trace trace = steps(10);
  EXPECT_EQ(Kept(trace, {}, 1000).events.windows, (Intervals{{0, trace.windows.front().end}}));
}

TEST(KeptEvents, AreTheTypicalTheSlowestAndTheFirstSteps) {
  const Trace trace = steps(10);
  const Intervals windows = Kept(trace, {}, 60).events.windows;
  EXPECT_EQ(windows,
            (Intervals{{0, 200}, {400, 500}, {600, 890}}));  // the first two, the median, the slowest: 59 events
}

TEST(KeptEvents, ASlowestStepThatDoesNotFitGivesWay) {
  const Trace trace = steps(10);
  EXPECT_EQ(Kept(trace, {}, 25).events.windows, (Intervals{{0, 100}, {400, 500}}));
}

TEST(KeptEvents, WhereNoStepFitsTheLongestRangesOfOneAre) {
  const Trace trace = steps(3);
  const KeptEvents kept = Kept(trace, {}, 4).events;
  EXPECT_EQ(kept.windows, (Intervals{{100, 200}}));
  EXPECT_EQ(kept.host_least_ns, 6);   // all ops are of 5 ns: more than fit
}

TEST(KeptEvents, OfTooManyActivitiesTheFirstAre) {
  TraceRows rows;
  rows.annotation("ProfilerStep#1", 0, 1000);
  for (int64_t i = 0; i < 100; ++i) rows.kernel("k", 10 * i, 5);
  const Trace trace = rows.finish();
  const KeptEvents kept = Kept(trace, {}, 40).events;
  EXPECT_EQ(kept.windows, (Intervals{{0, 300}}));
}

TEST(KeptEvents, AChoiceIsKeptWhole) {
  const Trace trace = steps(10);
  EXPECT_EQ(Kept(trace, {.all = false, .indices = {{2, 4}, {9, 10}}}, 1).events.windows,
            (Intervals{{100, 300}, {990, 1090}}));
  EXPECT_EQ(Kept(trace, {.all = true, .indices = {}}, 1).events.windows, (Intervals{{0, trace.windows.front().end}}));
  EXPECT_TRUE(Kept(trace, {.all = false, .indices = {{50, 60}}}, 1).events.windows.empty());
}

TEST(KeptEvents, RanksShareTheBudgetAndTheWindows) {
  const Trace a = steps(4), b = steps(4);
  const Facts first(a, {}), second(b, {});
  const std::vector<PlacedRank> ranks = {{0, &first, 0}, {1, &second, 50}};
  const KeptEvents kept = kept_events(ranks, {0, 450}, {}, 30);
  EXPECT_EQ(kept.windows, (Intervals{{100, 250}}));   // one step, from the earlier start to the later end
}

}  // namespace
}  // namespace profgpu
