#include "analyse/rank/replay.h"

#include <gtest/gtest.h>

#include "analyse/rank/steps.h"
#include "support/hand_trace.h"

namespace profgpu {
namespace {

TEST(Replay, WithNothingTakenOutIsTheRecording) {
  HandTrace hand;
  hand.range("ProfilerStep#0", 0, 100).kernel("a", 10, 15, 30, 60).kernel("b", 20, 25, 60, 120);
  const Trace trace = hand.build();
  const Facts facts(trace, {});
  EXPECT_EQ(facts.get<Replay>().saved_by({}).least_ns, 0);
}

// Two clocks that disagree: the kernel runs before its launch, and before the step that launched it.
TEST(Replay, AKernelFromBeforeTheStepSavesNothing) {
  HandTrace hand;
  hand.range("ProfilerStep#0", 100, 200).kernel("a", 110, 115, 120, 150).kernel("early", 150, 160, 50, 300);
  const Trace trace = hand.build();
  const Facts facts(trace, {});
  EXPECT_EQ(facts.get<Replay>().saved_by({}).least_ns, 0);
}

// One step that saves at its end: no gap between kernels, and idle time all the same.
TEST(Replay, ACheckpointAfterTheLastKernelCosts) {
  HandTrace hand;
  hand.range("ProfilerStep#0", 0, 200).kernel("a", 10, 15, 20, 60).call("cudaDeviceSynchronize", 20, 61);
  hand.range("save_checkpoint", 70, 190);
  const Trace trace = hand.build();
  const Facts facts(trace, {});
  EXPECT_EQ(facts.get<Replay>().saved_by_cause(IdleCause::kCheckpoint, 0).least_ns, 120000);
}

// The call began while the kernel before still ran, and loads the module of the one that it launches.
TEST(Replay, ALongLaunchCosts) {
  HandTrace hand;
  hand.range("ProfilerStep#0", 0, 2300).kernel("a", 5, 10, 10, 50);
  for (int64_t t = 10; t < 40; t += 10) hand.kernel("a", t, t + 5, t + 40, t + 45);
  hand.kernel("b", 60, 2200, 2205, 2300);
  const Trace trace = hand.build();
  const Facts facts(trace, {});
  EXPECT_NEAR(static_cast<double>(facts.get<Replay>().saved_by_cause(IdleCause::kFirstUse, 0).least_ns), 2.12e6, 0.05e6);
}

// Without marked steps the trace is one, and often ends as a wait does.
TEST(Replay, AWaitMayEndWithTheStep) {
  HandTrace hand;
  hand.kernel("a", 10, 15, 20, 60).kernel("b", 16, 20, 61, 190).call("cudaDeviceSynchronize", 20, 191);
  const Trace trace = hand.build();
  const Facts facts(trace, {});
  Removal removal;
  removal.activity = {false, true};
  EXPECT_EQ(facts.get<Replay>().saved_by(removal).least_ns, 129'000);
}

TEST(Replay, WithoutAWaitTheTraceEndsWithTheDevice) {
  HandTrace hand;
  hand.kernel("a", 10, 15, 20, 60).kernel("b", 16, 20, 61, 190);
  const Trace trace = hand.build();
  const Facts facts(trace, {});
  Removal removal;
  removal.activity = {false, true};
  EXPECT_EQ(facts.get<Replay>().saved_by(removal).least_ns, 129'000);
}

/// Ten steps: 400 us of compute, then 300 of communication, and a kernel that waits for that, `release` later. The host
/// launches all within 100 us a step and waits for it, or runs ahead.
Trace communicating(int64_t release, bool waits) {
  HandTrace hand;
  const int64_t device = 710 + release + 20, step = waits ? device + 60 : 100;
  for (int64_t i = 0; i < 10; ++i) {
    const int64_t at = 1000 + i * step, on = 1050 + i * (waits ? step : device);
    hand.range("ProfilerStep#" + std::to_string(i), at, at + step);
    hand.kernel("gemm", at + 1, at + 6, on, on + 400);
    hand.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", at + 11, at + 16, on + 402, on + 702, "main", 20);
    hand.kernel("adam", at + 21, at + 26, on + 702 + release, on + 710 + release + 20);
    if (waits) hand.call("cudaDeviceSynchronize", at + 30, on + device + 3);
  }
  return hand.build();
}

TEST(Replay, AStreamThatIsReleasedSlowlyWaitedAllTheSame) {
  for (const int64_t release : {2, 9, 11, 20, 60}) {
    const Trace trace = communicating(release, true);
    const Facts facts(trace, {});
    const auto saved = static_cast<double>(facts.get<Replay>().saved_by_communication(0).least_ns);
    EXPECT_NEAR(saved, 10 * 300'000.0, 10 * 6'000.0) << release;
  }
}

/// One step: 400 us of compute release a transfer of 500 while the next 300 us of compute run; `adam` waits for both.
Trace overlapping() {
  HandTrace hand;
  hand.range("ProfilerStep#0", 0, 1200);
  hand.kernel("slow", 1, 6, 20, 420).kernel("next", 11, 16, 421, 721);
  hand.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 21, 26, 424, 924, "main", 20);
  hand.kernel("adam", 31, 36, 927, 947).call("cudaDeviceSynchronize", 40, 950);
  return hand.build();
}

TEST(Replay, WorkThatReleasesAnotherStreamMovesItAlthoughItsOwnGoesOn) {
  const Trace trace = overlapping();
  const Facts facts(trace, {});
  Removal removal;
  for (uint32_t i = 0; i < trace.activity.size(); ++i)
    removal.activity.push_back(trace.name(ActivityId(i)) == "slow");
  EXPECT_NEAR(static_cast<double>(facts.get<Replay>().saved_by(removal).least_ns), 400'000, 12'000);
}

TEST(Replay, WhereTheHostRunsAheadStepsTakeWhatTheDeviceTakes) {
  const Trace trace = communicating(5, false);
  const Facts facts(trace, {});
  const double share = static_cast<double>(facts.get<Replay>().saved_by_communication(0).least_ns) /
                       static_cast<double>(total_length(facts.get<Steps>().measured_time()));
  EXPECT_NEAR(share, 300.0 / 735, 0.02);
}

// Kernels of 4 us, launched each 20 us: in time, one would follow the other.
TEST(Replay, LaunchesInTimeLeaveTheKernelsAlone) {
  HandTrace hand;
  hand.range("ProfilerStep#0", 0, 2000);
  for (int64_t i = 0; i < 99; ++i) hand.kernel("small", 2 + i * 20, 8 + i * 20, 12 + i * 20, 16 + i * 20);
  const Trace trace = hand.build();
  const Facts facts(trace, {});
  const Saving saved = facts.get<Replay>().saved_by_cause(IdleCause::kHostBound, 0);
  EXPECT_NEAR(static_cast<double>(saved.least_ns), 98 * 16e3, 98 * 1e3);
}

Saving saved_without(const Trace& trace, std::string_view kernel) {
  const Facts facts(trace, {});
  Removal removal;
  for (uint32_t i = 0; i < trace.activity.size(); ++i)
    removal.activity.push_back(trace.name(ActivityId(i)) == kernel);
  return facts.get<Replay>().saved_by(removal);
}

// Three steps of 1 ms, whose kernel ends after 900 us. What the host does meanwhile is in the trace, or is not.
TEST(Replay, AWaitThatIsNotRecordedIsPossible) {
  for (const bool recorded : {true, false}) {
    HandTrace hand;
    for (int64_t i = 0; i < 3; ++i) {
      const int64_t at = 1000 * i;
      hand.range("ProfilerStep#" + std::to_string(i), at, at + 1000).kernel("slow", at + 10, at + 20, at + 30, at + 900);
      if (recorded) hand.call("cudaDeviceSynchronize", at + 25, at + 905);
    }
    const Saving saved = saved_without(hand.build(), "slow");
    EXPECT_NEAR(static_cast<double>(saved.most_ns), 3 * 870e3, 3 * 10e3);
    EXPECT_EQ(saved.least_ns, recorded ? saved.most_ns : 0);
  }
}

TEST(Replay, AHostThatWorksAllTheTimeDoesNotWait) {
  HandTrace hand;
  hand.range("ProfilerStep#0", 0, 1000).kernel("slow", 10, 20, 30, 900);
  for (int64_t at = 30; at < 990; at += 20) hand.op("aten::add", at, at + 18);
  EXPECT_EQ(saved_without(hand.build(), "slow").most_ns, 0);
}

// Whatever starts at once has not waited for the host.
TEST(Replay, OfADeviceAloneTheHostIsUnknown) {
  for (const int64_t apart : {2, 50}) {
    HandTrace hand;
    int64_t at = 100;
    for (int i = 0; i < 20; ++i, at += 100 + apart)
      hand.orphan(i % 2 == 0 ? "slow" : "other", at, at + 100);
    const Saving saved = saved_without(hand.build(), "slow");
    EXPECT_NEAR(static_cast<double>(saved.most_ns), 10 * 100e3, 10 * 2e3) << apart;
    EXPECT_NEAR(static_cast<double>(saved.least_ns), apart == 2 ? 10 * 100e3 : 0, 10 * 2e3) << apart;
  }
}

// Ten steps of 10 ms that idle for 1 ms each, and a pause of 2 s among them that no range marks.
TEST(Replay, NothingIsSavedBetweenSteps) {
  HandTrace hand;
  int64_t t = 0;
  for (int64_t i = 0; i < 10; ++i) {
    hand.range("train_step#" + std::to_string(i), t, t + 10'000).kernel("gemm", t + 10, t + 15, t + 50, t + 9050);
    t += i == 4 ? 2'010'000 : 10'000;
  }
  const Trace trace = hand.build();
  const Facts facts(trace, {});
  const Saving saved = facts.get<Replay>().saved_by_cause(IdleCause::kHostBound, 0);
  EXPECT_LE(saved.most_ns, 10 * 1'000'000);
  EXPECT_GT(saved.least_ns, 8 * 900'000);
}

}  // namespace
}  // namespace profgpu
