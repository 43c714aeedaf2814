#include "analyse/rank/idle.h"

#include <gtest/gtest.h>

#include "analyse/rank/devices.h"
#include "analyse/rank/replay.h"
#include "tests/support/hand_trace.h"

namespace profgpu {
namespace {

// The cause of the gap between kernel a (ends at 100) and kernel b; `build` adds both and what the host did.
IdleCause cause_of(HandTrace& small) {
  const Trace trace = small.build();
  const Facts facts(trace, {});
  const auto& gaps = facts.get<Idle>().devices.at(0).gaps;
  EXPECT_EQ(gaps.size(), 1U);
  return gaps.empty() ? IdleCause::kUnknown : gaps[0].cause;
}

IdleCause cause_of_longest(HandTrace& several) {
  const Trace trace = several.build();
  const Facts facts(trace, {});
  const auto& gaps = facts.get<Idle>().devices.at(0).gaps;
  return gaps.empty() ? IdleCause::kUnknown : std::ranges::max_element(gaps, {}, &Gap::length)->cause;
}

TEST(Idle, LaunchedBeforeAShortGapIsLatency) {
  HandTrace t;
  t.kernel("a", 0, 5, 10, 100).kernel("b", 50, 55, 109, 200);
  EXPECT_EQ(cause_of(t), IdleCause::kLaunchLatency);
}

TEST(Idle, LaunchedBeforeALongGapIsADependency) {
  HandTrace t;
  t.kernel("a", 0, 5, 10, 100).kernel("b", 50, 55, 110, 200);
  EXPECT_EQ(cause_of(t), IdleCause::kDependency);
}

TEST(Idle, QueuedWorkThatNothingRecordedHoldsUpWaitsForUntracedWork) {
  HandTrace alone, short_one, host_function;
  alone.kernel("a", 0, 5, 10, 100).kernel("b", 50, 55, 1101, 1200);
  EXPECT_EQ(cause_of(alone), IdleCause::kUntracedWork);
  short_one.kernel("a", 0, 5, 10, 100).kernel("b", 50, 55, 1099, 1200);
  EXPECT_EQ(cause_of(short_one), IdleCause::kDependency);
  host_function.kernel("a", 0, 5, 10, 100).call("cudaLaunchHostFunc", 20, 25).kernel("b", 50, 55, 1101, 1200);
  EXPECT_EQ(cause_of(host_function), IdleCause::kDependency);
  HandTrace before;   // one that was queued before the first kernel has been carried out
  before.call("cudaLaunchHostFunc", 0, 5).kernel("a", 6, 9, 10, 100).kernel("b", 50, 55, 1101, 1200);
  EXPECT_EQ(cause_of(before), IdleCause::kUntracedWork);
}

// Two decode steps with a gap between them, in which the thread is in `frame`; empty: in nothing.
IdleCause cause_between_steps(const char* frame, int64_t second_us) {
  HandTrace t;
  t.range("execute_context_0(0)_generation_4(4)", 0, 900).kernel("a", 10, 20, 30, 800);
  if (*frame != 0) t.python(frame, 950, second_us - 10);
  t.range("execute_context_0(0)_generation_4(4)", second_us, second_us + 900);
  t.kernel("b", second_us + 10, second_us + 20, second_us + 30, second_us + 800);
  return cause_of(t);
}

TEST(Idle, AnEngineThatWaitsForRequestsIsNotHostBound) {
  EXPECT_EQ(cause_between_steps("queue.py(171): get", 3'000), IdleCause::kNoRequests);
  EXPECT_EQ(cause_between_steps("/srv/sglang/srt/managers/scheduler.py(900): recv_requests", 3'000),
            IdleCause::kNoRequests);
  EXPECT_EQ(cause_between_steps("vllm/v1/core/sched/scheduler.py(171): schedule", 300'000), IdleCause::kHostBound);
}

TEST(Idle, BeforeTheFirstRequestAnEngineOnlyWaits) {
  HandTrace t;
  t.range("ProfilerStep#1", 0, 10'000).python("queue.py(171): get", 10, 4'990);
  t.range("execute_context_1(8)_generation_0(0)", 5'000, 9'000).kernel("a", 5'010, 5'020, 5'030, 8'000);
  const Trace trace = t.build();
  const Facts facts(trace, {});
  const auto& edges = facts.get<Idle>().devices.at(0).edges;
  ASSERT_EQ(edges.size(), 2U);
  EXPECT_EQ(edges[0].cause, IdleCause::kNoRequests);
}

TEST(Idle, AnEngineThatWaitsForAnotherProcessMayWaitForItsScheduler) {
  const char* frame = "vllm/distributed/device_communicators/shm_broadcast.py(400): acquire_read";
  EXPECT_EQ(cause_between_steps(frame, 3'000), IdleCause::kHostBound);
  EXPECT_EQ(cause_between_steps(frame, 300'000), IdleCause::kNoRequests);
  EXPECT_EQ(cause_between_steps("", 3'000), IdleCause::kHostBound);
  EXPECT_EQ(cause_between_steps("", 300'000), IdleCause::kNoRequests);
}

TEST(Idle, WithoutAnEngineAQueueIsHostTime) {
  HandTrace t;
  t.range("step_1", 0, 900).kernel("a", 10, 20, 30, 800).python("queue.py(171): get", 950, 2990);
  t.range("step_2", 3000, 3900).kernel("b", 3010, 3020, 3030, 3800);
  EXPECT_EQ(cause_of(t), IdleCause::kHostBound);
}

TEST(Idle, WhereLaunchedKernelsLackRecordsTheDeviceWorked) {
  const auto with = [](int64_t lost) {
    HandTrace t;
    t.kernel("a", 0, 5, 10, 100);
    for (int64_t i = 0; i < lost; ++i) t.call("cudaLaunchKernel", 200 + 10 * i, 205 + 10 * i);
    t.kernel("b", 1000, 1005, 1010, 1100);
    return cause_of(t);
  };
  EXPECT_EQ(with(20), IdleCause::kUntracedWork);
  EXPECT_EQ(with(19), IdleCause::kHostBound);
}

TEST(Idle, QueuedKernelsWithoutRecordsRanInTheGap) {
  const auto with = [](int64_t lost) {   // all are launched before the first kernel has ended
    HandTrace t;
    t.kernel("a", 0, 5, 10, 900);
    for (int64_t i = 0; i < lost; ++i) t.call("cudaLaunchKernel", 20 + 10 * i, 25 + 10 * i);
    t.kernel("b", 500, 505, 1600, 1700);
    return cause_of(t);
  };
  EXPECT_EQ(with(20), IdleCause::kUntracedWork);
  EXPECT_EQ(with(19), IdleCause::kDependency);
}

TEST(Idle, TheEndWithoutRecordsOfQueuedKernelsIsNotTheHosts) {
  HandTrace t;
  t.range("ProfilerStep#1", 0, 2000).kernel("a", 0, 5, 10, 500);
  for (int64_t i = 0; i < 20; ++i) t.call("cudaLaunchKernel", 20 + 10 * i, 25 + 10 * i);
  const Trace trace = t.build();
  const Facts facts(trace, {});
  const auto& edges = facts.get<Idle>().devices.at(0).edges;
  ASSERT_EQ(edges.size(), 2U);
  EXPECT_EQ(edges[1].cause, IdleCause::kUntracedWork);
}

TEST(Idle, WithoutALaunchTheCauseIsUnknown) {
  HandTrace t;
  t.kernel("a", 0, 5, 10, 100).orphan("b", 150, 200);
  EXPECT_EQ(cause_of(t), IdleCause::kUnknown);
}

TEST(Idle, LaunchedLateIsHostBound) {
  HandTrace t;
  t.kernel("a", 0, 5, 10, 100).kernel("b", 150, 155, 160, 200);
  EXPECT_EQ(cause_of(t), IdleCause::kHostBound);
}

TEST(Idle, OverHalfOfTheWaitInTheLoaderIsDataLoading) {
  HandTrace most, half;
  most.kernel("a", 0, 5, 10, 100).range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 90, 131);
  most.kernel("b", 160, 165, 170, 200);
  EXPECT_EQ(cause_of(most), IdleCause::kDataLoading);   // 31 of 60 us
  half.kernel("a", 0, 5, 10, 100).range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 90, 130);
  half.kernel("b", 160, 165, 170, 200);
  EXPECT_EQ(cause_of(half), IdleCause::kHostBound);     // 30 of 60 us
}

TEST(Idle, ALoaderOnAnotherThreadIsNotTheCause) {
  HandTrace t;
  t.kernel("a", 0, 5, 10, 100).range("load_batch", 90, 160, "prefetch").kernel("b", 160, 165, 170, 200);
  EXPECT_EQ(cause_of(t), IdleCause::kHostBound);
}

TEST(Idle, CheckpointsComeBeforeDataLoading) {
  HandTrace t;
  t.kernel("a", 0, 5, 10, 100).range("save_checkpoint", 90, 158).range("load_batch", 92, 157);
  t.kernel("b", 160, 165, 170, 200);
  EXPECT_EQ(cause_of(t), IdleCause::kCheckpoint);
}

TEST(Idle, AllocationCallsAreACause) {
  HandTrace t;
  t.kernel("a", 0, 5, 10, 100).call("cudaMalloc", 101, 150).kernel("b", 160, 165, 170, 200);
  EXPECT_EQ(cause_of(t), IdleCause::kMemoryAllocation);
}

TEST(Idle, AWaitThatEndedInTheGapIsSynchronization) {
  HandTrace t;
  t.kernel("a", 0, 5, 10, 100).call("cudaStreamSynchronize", 20, 104).kernel("b", 150, 155, 160, 200);
  EXPECT_EQ(cause_of(t), IdleCause::kSynchronization);
}

TEST(Idle, AWaitForNothingIsNot) {
  HandTrace t;   // began when the device was already idle
  t.kernel("a", 0, 5, 10, 100).call("cudaStreamSynchronize", 110, 112).kernel("b", 150, 155, 160, 200);
  EXPECT_EQ(cause_of(t), IdleCause::kHostBound);
}

TEST(Idle, WhatIsKnownToHappenOnceIsFirstUse) {
  HandTrace t;
  t.kernel("a", 0, 5, 10, 100).call("cuModuleLoadData", 100, 150).kernel("b", 160, 165, 170, 200);
  EXPECT_EQ(cause_of(t), IdleCause::kFirstUse);
}

TEST(Idle, ACallThatTakesManyTimesWhatItUsuallyTakesIsFirstUse) {
  HandTrace slow, usual;
  slow.kernel("a", 0, 5, 10, 100).kernel("b", 20, 25, 100, 200).kernel("c", 210, 3300, 3310, 3400);
  usual.kernel("a", 0, 900, 910, 920).kernel("b", 930, 1800, 1810, 1820).kernel("c", 1830, 3300, 3310, 3400);
  EXPECT_EQ(cause_of(slow), IdleCause::kFirstUse);
  const Trace trace = usual.build();
  const Facts facts(trace, {});
  for (const Gap& gap : facts.get<Idle>().devices.at(0).gaps) EXPECT_NE(gap.cause, IdleCause::kFirstUse);
}

TEST(Idle, CompilersAndLoadersInFramesAreFirstUse) {
  for (const char* frame : {"aiter/jit/core.py(400): build_module", "torch/utils/cpp_extension.py(1900): _jit_compile",
                            "flashinfer/jit/core.py(120): build_and_load", "<built-in function dlopen>",
                            "<frozen importlib._bootstrap>(1165): _find_and_load"}) {
    HandTrace t;
    t.kernel("a", 0, 5, 10, 100).python("train.py(20): forward", 101, 159).python(frame, 102, 150);
    t.kernel("b", 160, 165, 170, 200);
    EXPECT_EQ(cause_of(t), IdleCause::kFirstUse) << frame;
  }
}

// Each of a library's kernels is timed with events.
TEST(Idle, TuningOfAConvolutionIsFirstUse) {
  const auto with = [](const char* op) {
    HandTrace t;
    t.kernel("a", 0, 5, 10, 100).op(op, 90, 900);
    for (int64_t at = 100; at < 700; at += 200)
      t.kernel("trial", at, at + 5, at + 10, at + 50).call("cudaEventSynchronize", at + 6, at + 52);
    return cause_of_longest(t.kernel("b", 890, 895, 896, 950));
  };
  EXPECT_EQ(with("aten::cudnn_convolution"), IdleCause::kFirstUse);
  EXPECT_NE(with("aten::item"), IdleCause::kFirstUse);
}

TEST(Idle, AnOperatorThatTakesLongOnceIsFirstUse) {
  const auto with = [](int64_t calls) {
    HandTrace t;
    int64_t at = 0;
    for (int64_t i = 0; i < calls; ++i, at += 60'100)
      t.op("aten::cudnn_convolution", at, at + 60'000).kernel("conv", at + 59'000, at + 59'005, at + 59'010, at + 60'090);
    return cause_of_longest(t.kernel("a", -100, -95, -90, 10));
  };
  EXPECT_EQ(with(1), IdleCause::kFirstUse);
  EXPECT_NE(with(5), IdleCause::kFirstUse) << "its usual time";
}

TEST(Idle, AWaitThatBeganWithNothingRecordedIsForUntracedWork) {
  HandTrace t;
  t.kernel("a", 0, 5, 10, 100).call("cudaStreamSynchronize", 110, 1110).kernel("b", 1150, 1155, 1160, 1200);
  EXPECT_EQ(cause_of(t), IdleCause::kUntracedWork);
}

TEST(Idle, TheWindowIsOfWholeStepsAndItsEdgesHaveCauses) {
  HandTrace t;   // 300 us in one step: 60 before the first kernel, 90 of kernels, 50 between, 100 after
  t.range("ProfilerStep#1", 0, 300).range("load_batch", 0, 50);
  t.kernel("a", 55, 57, 60, 100).kernel("b", 140, 145, 150, 200);
  const Trace trace = t.build();
  const Facts facts(trace, {});
  const DeviceIdle& idle = facts.get<Idle>().devices.at(0);
  EXPECT_EQ(idle.window, (Intervals{{0, 300000}}));
  ASSERT_EQ(idle.edges.size(), 2U);
  EXPECT_EQ(idle.edges[0].cause, IdleCause::kDataLoading);
  EXPECT_FALSE(idle.edges[0].before.valid());
  EXPECT_EQ(idle.edges[1].cause, IdleCause::kHostBound);
  EXPECT_FALSE(idle.edges[1].after.valid());
  const std::vector<DeviceRow> devices = DeviceRow::rows(facts);
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(devices[0].window_ns, 300000);
  EXPECT_EQ(devices[0].window_idle_ns(), 210000);
  EXPECT_DOUBLE_EQ(devices[0].window_utilization_pct(), 30);
  int64_t sum = 0;
  for (const IdleRow& row : IdleRow::rows(facts)) sum += row.total_ns + row.edge_ns;
  EXPECT_EQ(sum, 210000);
}

TEST(Idle, CausesAddUpAndOverlappingStreamsLeaveNoGap) {
  HandTrace t;
  t.kernel("a", 0, 5, 10, 100).kernel("c", 1, 6, 50, 150, "main", 8).kernel("b", 120, 125, 200, 250);
  const Trace trace = t.build();
  const Facts facts(trace, {});
  const DeviceIdle& idle = facts.get<Idle>().devices.at(0);
  ASSERT_EQ(idle.gaps.size(), 1U);
  EXPECT_EQ(idle.gaps[0].start_ns, 150000);
  EXPECT_EQ(idle.gaps[0].length(), 50000);
  EXPECT_EQ(trace.name(idle.gaps[0].before), "c");
}

// Three steps of 100 us: 40 us of loading, launch, 50 us of kernel, a wait for it. Without loading a step takes 60.
TEST(Replay, TakesOutDataLoading) {
  HandTrace t;
  for (int64_t at = 0; at < 300; at += 100) {
    t.range("ProfilerStep#" + std::to_string(at / 100 + 1), at, at + 100).range("load_batch", at, at + 40);
    t.kernel("k", at + 40, at + 45, at + 48, at + 98).call("cudaDeviceSynchronize", at + 46, at + 99);
  }
  const Trace trace = t.build();
  const Facts facts(trace, {});
  const Replay& replay = facts.get<Replay>();
  EXPECT_EQ(replay.saved_by({}).least_ns, 0);
  Removal loading;
  loading.host_time = {{0, 40000}, {100000, 140000}, {200000, 240000}};
  EXPECT_EQ(replay.saved_by(loading).least_ns, 120000);
  // Two gaps of 50 us lie between kernels; the first load is before the device's span, and idle time all the same.
  EXPECT_EQ(replay.saved_by_cause(IdleCause::kDataLoading, 0).least_ns, 120000);
  EXPECT_EQ(replay.saved_by_cause(IdleCause::kHostBound, 0).least_ns, 0);
}

TEST(Idle, TheSpanEndsWithWhatTakesNoTime) {
  HandTrace t;
  t.kernel("first", 0, 5, 10, 10).kernel("a", 1, 6, 30, 100).kernel("last", 50, 55, 120, 120);
  const Trace trace = t.build();
  const Facts facts(trace, {});
  const DeviceIdle& idle = facts.get<Idle>().devices.at(0);
  int64_t sum = 0;
  for (const int64_t ns : idle.total_ns) sum += ns;
  EXPECT_EQ(sum, facts.get<Devices>().devices.at(0).idle_ns);
}

}  // namespace
}  // namespace profgpu
