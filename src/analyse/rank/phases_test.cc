#include "analyse/rank/phases.h"

#include <gtest/gtest.h>

#include "analyse/rank/collectives.h"
#include "analyse/rank/steps.h"
#include "tests/support/hand_trace.h"

namespace profgpu {
namespace {

int64_t micros(const Phases& p, Phase phase) { return p.wall_ns[static_cast<size_t>(phase)] / 1000; }

TEST(Phases, OrdinaryStep) {
  HandTrace t;
  t.range("ProfilerStep#1", 0, 1000);
  t.range("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 10, 110);
  t.op("aten::to", 120, 130).op("aten::linear", 150, 300);
  t.range("Optimizer.zero_grad#SGD.zero_grad", 320, 340);                         // between forward and backward
  t.op("autograd::engine::evaluate_function: AddmmBackward0", 360, 500, "autograd");
  t.op("autograd::engine::evaluate_function: AddmmBackward0", 520, 700, "autograd");
  t.range("Optimizer.step#SGD.step", 720, 900);
  const Trace trace = t.build();
  const Facts facts(trace, {});
  const Phases& p = facts.get<Phases>();
  EXPECT_EQ(micros(p, Phase::kDataLoading), 100);
  EXPECT_EQ(micros(p, Phase::kForward), 220);      // 120 to 360, less zero_grad
  EXPECT_EQ(micros(p, Phase::kBackward), 340);     // 360 to 700, the gap included
  EXPECT_EQ(micros(p, Phase::kOptimizer), 200);
  EXPECT_EQ(micros(p, Phase::kOther), 140);
  EXPECT_EQ(p.backward_passes, 1);
  EXPECT_EQ(p.optimizer_steps, 1);
}

TEST(Phases, WaitingForTheDeviceIsThePhaseThatItRuns) {
  HandTrace t;
  t.range("ProfilerStep#1", 0, 1000).op("aten::mm", 10, 100);
  t.kernel("k", 20, 25, 30, 500);
  t.op("autograd::engine::evaluate_function: MmBackward0", 100, 200, "autograd");
  t.kernel("kb", 120, 125, 500, 800, "autograd");
  t.call("cudaDeviceSynchronize", 210, 810);
  const Trace trace = t.build();
  const Facts facts(trace, {});
  const Phases& p = facts.get<Phases>();
  EXPECT_EQ(micros(p, Phase::kForward), 90 + 290);        // 10 to 100, and 210 to 500 in the wait
  EXPECT_EQ(micros(p, Phase::kBackward), 100 + 300);
  EXPECT_EQ(micros(p, Phase::kOther), 1000 - 380 - 400);  // the wait's end runs nothing, then or later
}

TEST(Phases, CommunicationAloneIsCommunication) {
  HandTrace t;
  t.range("ProfilerStep#1", 0, 1000).op("aten::mm", 10, 100);
  t.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20, 25, 30, 600).call("cudaStreamSynchronize", 200, 600);
  const Trace trace = t.build();
  const Facts facts(trace, {});
  EXPECT_EQ(micros(facts.get<Phases>(), Phase::kCommunication), 400);
}

TEST(Phases, InferenceIsForwardFromTheFirstOpToTheLast) {
  HandTrace t;
  t.range("ProfilerStep#1", 0, 500).op("aten::mm", 100, 200).op("aten::add", 300, 400);
  const Trace trace = t.build();
  const Facts facts(trace, {});
  EXPECT_EQ(micros(facts.get<Phases>(), Phase::kForward), 300);
  EXPECT_EQ(micros(facts.get<Phases>(), Phase::kOther), 200);
}

TEST(Phases, MicroBatchesAreSeparatePasses) {
  HandTrace t;
  t.range("ProfilerStep#1", 0, 1000);
  for (const int64_t at : {0, 300, 600}) {
    t.op("aten::mm", at + 10, at + 100);
    t.op("autograd::engine::evaluate_function: MmBackward0", at + 100, at + 250, "autograd");
  }
  t.range("Optimizer.step#Adam.step", 900, 950);
  const Trace trace = t.build();
  const Facts facts(trace, {});
  const Phases& p = facts.get<Phases>();
  EXPECT_EQ(p.backward_passes, 3);
  EXPECT_EQ(p.optimizer_steps, 1);
  EXPECT_EQ(micros(p, Phase::kBackward), 450);
  EXPECT_EQ(micros(p, Phase::kForward), 270);
}

TEST(Phases, NamesOfRanges) {
  EXPECT_EQ(phase_of_range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"), Phase::kDataLoading);
  EXPECT_EQ(phase_of_range("Data Loading"), Phase::kDataLoading);
  EXPECT_EQ(phase_of_range("## forward ##"), Phase::kForward);
  EXPECT_EQ(phase_of_range("## backward ##"), Phase::kBackward);
  EXPECT_EQ(phase_of_range("Optimizer.step#AdamW.step"), Phase::kOptimizer);
  EXPECT_EQ(phase_of_range("torch.save"), Phase::kCheckpoint);
  EXPECT_EQ(phase_of_range("checkpoint"), Phase::kOther);            // activation checkpointing
  EXPECT_EQ(phase_of_range("aten::mm"), Phase::kOther);
}

TEST(Steps, FromRangesByNameElseTheWholeTrace) {
  HandTrace named;
  named.range("iteration 12", 0, 100).range("iteration 13", 100, 220).op("aten::mm", 10, 20);
  const Trace a = named.build();
  const Facts with_names(a, {});
  ASSERT_EQ(with_names.get<Steps>().steps.size(), 2U);
  EXPECT_EQ(with_names.get<Steps>().steps[1].index, 13);
  EXPECT_TRUE(with_names.get<Steps>().annotated);

  HandTrace plain;
  plain.op("aten::mm", 10, 20).kernel("k", 12, 14, 30, 90);
  const Trace b = plain.build();
  const Facts without(b, {});
  ASSERT_EQ(without.get<Steps>().steps.size(), 1U);
  EXPECT_EQ(without.get<Steps>().steps[0].name, "trace");
  EXPECT_EQ(without.get<Steps>().steps[0].start_ns, 10000);
  EXPECT_EQ(without.get<Steps>().steps[0].duration_ns, 80000);

  HandTrace own;
  own.range("train epoch=0 it=7", 0, 50).range("train epoch=0 it=8", 50, 100);
  const Trace c = own.build();
  AnalysisOptions options;
  options.step_pattern = "^train .* it=[0-9]+$";
  const Facts by_pattern(c, options);
  EXPECT_EQ(by_pattern.get<Steps>().steps.size(), 2U);
}

TEST(Steps, LeadingLongStepsAreWarmup) {
  HandTrace t;
  int64_t at = 0;
  int n = 1;
  for (const int64_t length : {400, 160, 100, 100, 300, 100}) {
    t.range("ProfilerStep#" + std::to_string(n++), at, at + length);
    at += length;
  }
  const Trace trace = t.build();
  const Facts facts(trace, {});
  const auto& steps = facts.get<Steps>().steps;
  EXPECT_TRUE(steps[0].warmup);
  EXPECT_TRUE(steps[1].warmup);    // 160 is over 1.5 times the median of 100
  EXPECT_FALSE(steps[2].warmup);
  EXPECT_FALSE(steps[4].warmup);   // long, but not leading
  EXPECT_EQ(facts.get<Steps>().measured_wall_ns(), 600000);
}

TEST(Steps, ALastOneThatTheRecordingCutShortIsInNoAverage) {
  const auto steps_with = [](bool launches, int64_t length) {
    HandTrace t;
    t.range("ProfilerStep#1", 0, 100).kernel("a", 10, 15, 20, 90);
    t.range("ProfilerStep#2", 100, 100 + length);
    if (launches) t.kernel("a", 101, 102, 110, 120);
    const Trace trace = t.build();
    return Facts(trace, {}).get<Steps>();
  };
  const Steps cut = steps_with(false, 10);
  EXPECT_TRUE(cut.steps[1].incomplete);
  EXPECT_FALSE(cut.steps[0].warmup);
  EXPECT_EQ(cut.measured_wall_ns(), 100'000);
  EXPECT_FALSE(steps_with(true, 10).steps[1].incomplete);
  EXPECT_FALSE(steps_with(false, 50).steps[1].incomplete);   // half as long as the other
  EXPECT_TRUE(steps_with(true, 10).steps[0].warmup);
}

// 7 steps of data_transfer, inference and a rest that nobody names.
HandTrace inference_steps() {
  HandTrace t;
  for (int step = 0; step < 7; ++step) {
    const int at = step * 1000;
    t.range("ProfilerStep#" + std::to_string(step), at, at + 1000);
    t.range("data_transfer", at + 10, at + 110).op("aten::to", at + 20, at + 100).call("cudaMemcpy", at + 30, at + 90);
    t.range("inference", at + 120, at + 800).op("aten::mm", at + 130, at + 400).op("aten::add", at + 500, at + 780);
    t.range("attention", at + 150, at + 380);
    t.op("aten::argmax", at + 850, at + 900);
  }
  return t;
}

TEST(Phases, RangesOfOwnNamesArePhasesByTheirNames) {
  const Trace trace = inference_steps().build();
  const Facts facts(trace, {});
  const Phases& p = facts.get<Phases>();
  EXPECT_EQ(p.own, (std::vector<std::string>{"inference", "data_transfer"})) << "attention is a detail of inference";
  EXPECT_EQ(micros(p, own_phase(0)), 7 * 680);
  EXPECT_EQ(micros(p, own_phase(1)), 7 * 100) << "the wait, too";
  EXPECT_EQ(micros(p, Phase::kForward), 7 * 50) << "what no range covers is as the ops tell";
  const std::vector<PhaseRow> rows = PhaseRow::rows(facts);
  ASSERT_EQ(rows.size(), 9u);
  EXPECT_EQ(rows[6].share.name, "inference");
  EXPECT_EQ(rows[8].share.name, "other");
  int64_t sum = 0;
  for (const PhaseRow& row : rows) sum += row.share.wall_ns;
  EXPECT_EQ(sum, facts.get<Steps>().total_wall_ns());
}

TEST(Phases, ARangeAroundPhasesIsNone) {
  HandTrace t;
  t.range("ProfilerStep#1", 0, 1000).range("training_step", 5, 990).range("preprocessing", 10, 300);
  t.range("iteration_body", 310, 980).range("compute", 320, 700).range("log", 710, 900);
  t.op("aten::mm", 330, 600).op("autograd::engine::evaluate_function: MmBackward0", 610, 690);
  const Trace trace = t.build();
  const Facts facts(trace, {});
  EXPECT_EQ(facts.get<Phases>().own, (std::vector<std::string>{"compute", "preprocessing", "log"}));
}

TEST(Phases, WhatIsAroundAllOfATrainingStepIsTheStepByAnotherName) {
  HandTrace t;
  t.range("ProfilerStep#1", 0, 1000).range("train", 5, 995).op("aten::mm", 10, 400);
  t.op("autograd::engine::evaluate_function: MmBackward0", 410, 900);
  const Trace trace = t.build();
  const Facts facts(trace, {});
  EXPECT_TRUE(facts.get<Phases>().own.empty());
  EXPECT_EQ(micros(facts.get<Phases>(), Phase::kBackward), 490);
}

TEST(Phases, ARecognisedRangeWithinAnOwnOneIsItself) {
  HandTrace t;
  t.range("ProfilerStep#1", 0, 1000).range("validate", 10, 900).range("forward", 100, 300);
  const Trace trace = t.build();
  const Facts facts(trace, {});
  EXPECT_EQ(micros(facts.get<Phases>(), own_phase(0)), 690);
  EXPECT_EQ(micros(facts.get<Phases>(), Phase::kForward), 200);
}

TEST(Phases, FrameworksNamesAreNoPhasesOfTheProgram) {
  for (const char* name : {"## sparse_data_dist ##", "nccl:all_reduce", "Torch-Compiled Region: 0/0", "FSDP::pre_forward",
                           "[param|cuda]", "execute_32_context_0", "", "1st"})
    EXPECT_FALSE(may_be_own_phase(name)) << name;
  for (const char* name : {"data_transfer", "inference", "préparation", "gpu_model_runner: forward", "eval/metrics"})
    EXPECT_TRUE(may_be_own_phase(name)) << name;
}

TEST(Phases, WaitsForCollectivesOfTheHostAreCommunication) {
  HandTrace t;
  t.range("ProfilerStep#1", 0, 10'000).op("aten::mm", 10, 1'000);
  t.op("autograd::engine::evaluate_function: MmBackward0", 1'000, 2'000).op("c10d::allreduce_", 2'000, 2'100);
  t.range("gloo:all_reduce", 1'500, 6'000, "gloo").op("aten::copy_", 6'050, 6'100);
  t.range("Optimizer.step#SGD.step", 6'200, 9'000);
  t.range("gloo:all_gather", 8'500, 9'800, "gloo");   // nothing waits for it
  const Trace trace = t.build();
  const Facts facts(trace, {});
  const Phases& p = facts.get<Phases>();
  EXPECT_EQ(micros(p, Phase::kCommunication), 4'000);   // 2,000 to 6,000
  EXPECT_EQ(micros(p, Phase::kBackward), 1'000);
  EXPECT_EQ(micros(p, Phase::kOptimizer), 2'800);
  const std::vector<CollectiveCall>& calls = facts.get<CollectiveCalls>().calls;
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].phase, Phase::kBackward);
  EXPECT_EQ(calls[1].phase, Phase::kOther);
}

TEST(Phases, WithoutADeviceWorkBetweenOpsIsNotForward) {
  HandTrace t;
  t.range("ProfilerStep#1", 0, 100'000);
  t.op("aten::detach", 1'000, 1'010);                     // a checkpoint's
  t.op("aten::select", 30'000, 30'010).op("aten::item", 30'100, 30'110);   // augmentation, right before the model
  t.numbered_op("aten::linear", 30'200, 40'000, 5);
  t.op("aten::relu", 40'010, 41'000);
  t.op("aten::item", 60'000, 60'010);                     // logging
  t.op("autograd::engine::evaluate_function: AddmmBackward0", 70'000, 80'000);
  const Trace trace = [&] {
    Trace built = t.build();
    HostId forward, backward;
    for (HostId i(0); i < HostId(static_cast<uint32_t>(built.host.size())); ++i) {
      if (built.name(i) == "aten::linear") forward = i;
      if (built.name(i).starts_with("autograd::")) backward = i;
    }
    built.backward_links = {{forward, backward}};
    return built;
  }();
  const Facts facts(trace, {});
  const Phases& p = facts.get<Phases>();
  EXPECT_EQ(micros(p, Phase::kForward), 10'800 + 10);   // 30,200 to 41,000, and what logs
  EXPECT_EQ(micros(p, Phase::kBackward), 10'000);
}

TEST(Phases, AFrozenPartOfTheModelIsForward) {
  HandTrace t;
  t.range("ProfilerStep#1", 0, 50'000);
  t.op("aten::conv2d", 1'000, 20'000).op("aten::linear", 20'050, 30'000);
  t.op("autograd::engine::evaluate_function: AddmmBackward0", 30'020, 40'000);
  Trace trace = t.build();
  HostId linear, backward;
  for (HostId i(0); i < HostId(static_cast<uint32_t>(trace.host.size())); ++i) {
    if (trace.name(i) == "aten::linear") linear = i;
    if (trace.name(i).starts_with("autograd::")) backward = i;
  }
  trace.backward_links = {{linear, backward}};
  const Facts facts(trace, {});
  EXPECT_EQ(micros(facts.get<Phases>(), Phase::kForward), 29'020);
}

TEST(Phases, InferenceWithoutADeviceHasPausesBetweenItsForwards) {
  HandTrace t;
  t.range("ProfilerStep#1", 0, 50'000).op("aten::mm", 1'000, 2'000).op("aten::add", 2'100, 3'000);
  t.op("aten::mm", 20'000, 22'000);
  const Trace trace = t.build();
  const Facts facts(trace, {});
  EXPECT_EQ(micros(facts.get<Phases>(), Phase::kForward), 4'000);
  EXPECT_EQ(micros(facts.get<Phases>(), Phase::kOther), 46'000);
}

}  // namespace
}  // namespace profgpu
