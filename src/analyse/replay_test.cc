#include "analyse/replay.h"

#include <gtest/gtest.h>

#include "support/hand_trace.h"

namespace profgpu {
namespace {

TEST(Replay, WithNothingTakenOutIsTheRecording) {
  HandTrace hand;
  hand.range("ProfilerStep#0", 0, 100).kernel("a", 10, 15, 30, 60).kernel("b", 20, 25, 60, 120);
  const Trace trace = hand.build();
  const Facts facts(trace, {});
  EXPECT_EQ(facts.get<Replay>().saved_by({}), 0);
}

// Two clocks that disagree: the kernel runs before its launch, and before the step that launched it.
TEST(Replay, AKernelFromBeforeTheStepSavesNothing) {
  HandTrace hand;
  hand.range("ProfilerStep#0", 100, 200).kernel("a", 110, 115, 120, 150).kernel("early", 150, 160, 50, 300);
  const Trace trace = hand.build();
  const Facts facts(trace, {});
  EXPECT_EQ(facts.get<Replay>().saved_by({}), 0);
}

}  // namespace
}  // namespace profgpu
