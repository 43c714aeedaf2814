// What stacks of real training programs say: closures, optimizers within the backward pass, recordings without C++.
#include <gtest/gtest.h>

#include "analyse/memory/snapshot_section.h"
#include "support/memory_snapshot_builder.h"

namespace profgpu {
namespace {

using Frame = SnapshotBuilder::Frame;
using Frames = std::vector<Frame>;

constexpr Frame kMain{"<module>", "/home/me/job/train.py", 40};
constexpr Frame kStep{"step", "/x/site-packages/torch/optim/adamw.py", 77};
constexpr Frame kWrapper{"wrapper", "/x/site-packages/torch/optim/optimizer.py", 517};
constexpr Frame kClosure{"closure", "/x/site-packages/lightning/pytorch/loops/optimization/automatic.py", 131};
constexpr Frame kForwardFrame{"forward", "/home/me/job/model.py", 12};
constexpr Frame kLoss{"training_step", "/home/me/job/lit.py", 33};
constexpr Frame kZeroGrad{"zero_grad", "/x/site-packages/torch/optim/optimizer.py", 1000};
constexpr Frame kAccumulate{"torch::autograd::AccumulateGrad::apply(std::vector&&)", "??", 0};
constexpr Frame kEngine{"torch::autograd::Engine::evaluate_function()", "??", 0};
constexpr Frame kApply{"BackwardCFunction.apply", "/x/site-packages/torch/autograd/function.py", 311};
constexpr int64_t kActivation = 8000, kParameter = 1000;

int64_t at_peak(const SnapshotSection& s, MemoryCategory category) {
  for (const CategoryRow& c : s.peak.categories)
    if (c.category == category) return c.bytes;
  return 0;
}

/// Forward, loss, backward and update of one parameter, all within the optimizer's step, as Lightning has them.
void add_closure_step(SnapshotBuilder& b, bool first, bool annotated, bool with_states) {
  const Frames calls{kClosure, kStep, kWrapper, kMain};
  const auto within = [&](const Frame& frame) {
    Frames all{frame};
    all.insert(all.end(), calls.begin(), calls.end());
    return all;
  };
  if (annotated) b.annotate("Optimizer.step#AdamW.step", true);
  b.alloc(0x10000, kActivation, within(kForwardFrame));
  b.alloc(0x20000, kActivation, within(kLoss));
  if (!first) b.free(0x30000, kParameter, within(kZeroGrad));
  b.alloc(0x40000, kActivation / 2, SnapshotBuilder::kBackward);
  b.free(0x20000, kActivation);
  b.alloc(0x30000, kParameter, SnapshotBuilder::kGradient);
  b.free(0x10000, kActivation);
  b.free(0x40000, kActivation / 2);
  const Frames update{kStep, kWrapper, kMain};
  if (first && with_states) b.alloc(0x50000, kParameter, update), b.alloc(0x60000, kParameter, update);
  if (with_states) b.alloc(0x70000, kParameter, update), b.free(0x70000, kParameter);
  if (annotated) b.annotate("Optimizer.step#AdamW.step", false);
}

TEST(StackRoles, WhatAClosureComputesIsNotTheOptimizers) {
  for (const bool annotated : {true, false})
    for (const bool with_states : {true, false}) {
      SnapshotBuilder b;
      for (int step = 0; step < 3; ++step) add_closure_step(b, step == 0, annotated, with_states);
      b.action(AllocationAction::kSnapshot, 0, 0);
      const SnapshotSection s = snapshot_section(b.finish());
      if (annotated || with_states) {
        EXPECT_EQ(s.steps, 3);
      }
      EXPECT_EQ(s.peak.phase, "backward");
      EXPECT_EQ(at_peak(s, MemoryCategory::kActivation), 2 * kActivation);
      EXPECT_EQ(at_peak(s, MemoryCategory::kTemporary), kActivation / 2);
      EXPECT_EQ(at_peak(s, MemoryCategory::kOptimizerState), with_states ? 2 * kParameter : 0);
      EXPECT_EQ(at_peak(s, MemoryCategory::kGradient), 0);
    }
}

TEST(StackRoles, ARangeThatEvaluatesSeveralLossesIsOneStep) {
  SnapshotBuilder b;
  const Frame lbfgs{"step", "/x/site-packages/torch/optim/lbfgs.py", 350};
  const Frames closure{kForwardFrame, kClosure, lbfgs, kWrapper, kMain};
  const Frames search{{"_strong_wolfe", "/x/site-packages/torch/optim/lbfgs.py", 60}, kWrapper, kMain};
  for (int step = 0; step < 2; ++step) {
    b.annotate("Optimizer.step#LBFGS.step", true);
    for (int evaluation = 0; evaluation < 3; ++evaluation) {
      b.alloc(0x10000, kActivation, closure);
      b.alloc(0x20000, kParameter, SnapshotBuilder::kBackward);
      b.free(0x10000, kActivation), b.free(0x20000, kParameter);
      b.alloc(0x30000, kParameter, search), b.free(0x30000, kParameter);
    }
    b.annotate("Optimizer.step#LBFGS.step", false);
  }
  b.alloc(0x10000, kActivation, SnapshotBuilder::kForward);
  EXPECT_EQ(snapshot_section(b.finish()).steps, 2);
}

TEST(StackRoles, OptimizersThatStepWithinTheBackwardPassEndOneStep) {
  const Frame caller{"optim_step", "/x/site-packages/torchtune/training/memory.py", 240};
  const Frames hook{kStep, kWrapper, caller, kAccumulate, kEngine};
  const Frames zero{kZeroGrad, caller, kAccumulate, kEngine};
  SnapshotBuilder b;
  for (int step = 0; step < 3; ++step) {
    b.alloc(0x10000, kActivation, SnapshotBuilder::kForward);
    for (uint64_t parameter = 0; parameter < 4; ++parameter) {
      b.alloc(0x20000, kParameter, SnapshotBuilder::kBackward);
      if (step == 0) b.alloc(0x50000 + 0x1000 * parameter, kParameter, hook);
      b.alloc(0x30000, kParameter / 2, hook), b.free(0x30000, kParameter / 2);
      b.free(0x20000, kParameter, zero);
    }
    b.free(0x10000, kActivation);
  }
  const SnapshotSection s = snapshot_section(b.finish());
  EXPECT_EQ(s.steps, 3);
  EXPECT_EQ(s.peak.phase, "backward");
  EXPECT_EQ(at_peak(s, MemoryCategory::kOptimizerState), 4 * kParameter);
  EXPECT_EQ(at_peak(s, MemoryCategory::kGradient), kParameter);
  EXPECT_EQ(at_peak(s, MemoryCategory::kTemporary), kParameter / 2);
}

TEST(StackRoles, RangesWithinABackwardPassEndOneStep) {
  SnapshotBuilder b;
  for (int step = 0; step < 3; ++step) {
    b.alloc(0x10000, kActivation, SnapshotBuilder::kForward);
    for (int parameter = 0; parameter < 4; ++parameter) {
      b.alloc(0x20000, kParameter, SnapshotBuilder::kBackward);
      b.annotate("Optimizer.step#SGD.step", true), b.annotate("Optimizer.step#SGD.step", false);
      b.free(0x20000, kParameter);
    }
    b.free(0x10000, kActivation);
  }
  EXPECT_EQ(snapshot_section(b.finish()).steps, 3);
}

TEST(StackRoles, WithoutNativeFramesWhatTheEngineCallsIsTheBackwardPass) {
  const Frames called[] = {
      {{"call", "/tmp/torchinductor_me/cd/cd1.py", 15},
       {"CompiledFunction.backward", "/x/site-packages/torch/_functorch/_aot_autograd/runtime_wrappers.py", 2277},
       kApply},
      {kForwardFrame, {"recompute_fn", "/x/site-packages/torch/utils/checkpoint.py", 1578},
       {"unpack_hook", "/x/site-packages/torch/utils/checkpoint.py", 1129}},
      {{"empty_like", "/x/site-packages/torch/functional.py", 10},
       {"_post_backward_hook", "/x/site-packages/torch/distributed/fsdp/_runtime_utils.py", 700}},
  };
  for (const Frames& stack : called) {
    SnapshotBuilder b;
    b.alloc(0x10000, kActivation, Frames{kForwardFrame, kMain});
    b.alloc(0x20000, kActivation, stack);
    b.free(0x10000, kActivation), b.free(0x20000, kActivation);
    const SnapshotSection s = snapshot_section(b.finish());
    EXPECT_EQ(s.peak.phase, "backward") << stack.back().name;
    EXPECT_EQ(at_peak(s, MemoryCategory::kActivation), kActivation);
    EXPECT_EQ(at_peak(s, MemoryCategory::kTemporary), kActivation);
  }
}

TEST(StackRoles, AFunctionOfTheProgramsOwnInAForwardIsTheForward) {
  SnapshotBuilder b;
  const Frame apply{"Function.apply", "/x/site-packages/torch/autograd/function.py", 581};
  b.alloc(0x10000, kActivation, Frames{{"forward", "/home/me/job/ops.py", 7}, apply, kForwardFrame, kMain});
  EXPECT_EQ(snapshot_section(b.finish()).peak.phase, "forward");
}

TEST(StackRoles, ACompiledOptimizerIsAnOptimizer) {
  SnapshotBuilder b;
  b.alloc(0x10000, kActivation, SnapshotBuilder::kForward);
  b.alloc(0x20000, kParameter, SnapshotBuilder::kBackward);
  b.free(0x10000, kActivation);
  b.alloc(0x30000, 2 * kActivation,
          Frames{{"forward", "/x/site-packages/torch/_functorch/aot_autograd.py", 1241}, kStep, kWrapper, kMain});
  const SnapshotSection s = snapshot_section(b.finish());
  EXPECT_EQ(s.peak.phase, "optimizer");
  EXPECT_EQ(at_peak(s, MemoryCategory::kOptimizerState), 2 * kActivation);
}

TEST(StackRoles, WhatTheProgramKeepsForItselfIsNoActivation) {
  SnapshotBuilder b;
  b.alloc(0x1000, 100000, Frames{{"load_dataset", "/home/me/job/data.py", 12}, kMain});
  for (int step = 0; step < 2; ++step) {
    b.alloc(0x30000, kActivation, Frames{kLoss, kMain});
    b.alloc(0x20000, kParameter, SnapshotBuilder::kBackward);
    b.free(0x30000, kActivation), b.free(0x20000, kParameter);
  }
  b.alloc(0x30000, kActivation, Frames{kLoss, kMain});   // as in the steps before, but its backward pass fails
  b.alloc(0x20000, 2 * kParameter, SnapshotBuilder::kBackward);
  const SnapshotSection s = snapshot_section(b.finish());
  EXPECT_EQ(at_peak(s, MemoryCategory::kUnknown), 100000);
  EXPECT_EQ(at_peak(s, MemoryCategory::kActivation), kActivation);
}

TEST(StackRoles, WhatIsLoadedOrAveragedIsParameters) {
  for (const Frame& frame : {Frame{"load_tensor", "/x/site-packages/torch/serialization.py", 2049},
                             Frame{"__init__", "/x/site-packages/torch/optim/swa_utils.py", 230}}) {
    SnapshotBuilder b;
    b.alloc(0x1000, kParameter, Frames{frame, kMain});
    b.alloc(0x10000, kActivation, SnapshotBuilder::kForward);
    EXPECT_EQ(at_peak(snapshot_section(b.finish()), MemoryCategory::kParameter), kParameter) << frame.file;
  }
}

TEST(StackRoles, ATrainerThatTrainsInItsInitHasActivations) {
  SnapshotBuilder b;
  const Frame init{"__init__", "/home/me/job/trainer.py", 60};
  const Frame loss{"cross_entropy", "/x/site-packages/torch/nn/functional.py", 3458};
  b.alloc(0x10000, kActivation, Frames{loss, init, kMain});
  b.alloc(0x20000, kParameter, SnapshotBuilder::kBackward);
  b.free(0x10000, kActivation);
  EXPECT_EQ(at_peak(snapshot_section(b.finish()), MemoryCategory::kActivation), kActivation);
}

TEST(StackRoles, WhatAFailedForwardHeldIsWhatItHoldsInOtherSteps) {
  SnapshotBuilder b;
  const Frames kept{kForwardFrame, kMain}, passing{{"forward", "/home/me/job/model.py", 14}, kMain};
  for (const int64_t batch : {1, 3}) {
    b.alloc(0x10000, batch * kActivation, kept);
    b.alloc(0x20000, batch * kActivation, passing);
    if (batch == 3) b.action(AllocationAction::kOom, 512, kActivation);
    if (batch == 3) b.free(0x10000, batch * kActivation);   // the exception frees all of it
    b.free(0x20000, batch * kActivation);
    if (batch == 3) break;
    b.alloc(0x30000, kParameter, SnapshotBuilder::kBackward);
    b.free(0x10000, batch * kActivation), b.free(0x30000, kParameter);
  }
  const SnapshotSection s = snapshot_section(b.finish());
  EXPECT_EQ(at_peak(s, MemoryCategory::kActivation), 3 * kActivation);
  EXPECT_EQ(at_peak(s, MemoryCategory::kTemporary), 3 * kActivation);
}

TEST(StackRoles, WhatOutlivesTheTemporariesOfItsLineIsKept) {
  SnapshotBuilder b;
  const Frames line{kForwardFrame, kMain};
  for (uint64_t layer = 0; layer < 4; ++layer) {
    b.alloc(0x100000 + 0x10000 * layer, kActivation, line);
    b.alloc(0x20000, 2 * kActivation, line), b.free(0x20000, 2 * kActivation);
  }
  b.alloc(0x20000, 2 * kActivation, line);
  const SnapshotSection s = snapshot_section(b.finish());
  EXPECT_EQ(at_peak(s, MemoryCategory::kActivation), 4 * kActivation);
  EXPECT_EQ(at_peak(s, MemoryCategory::kTemporary), 2 * kActivation);
}

TEST(StackRoles, PlansOfCudnnHaveWorkspaces) {
  SnapshotBuilder b;
  b.alloc(0x10000, kActivation,
          Frames{{"at::native::(anonymous namespace)::run_conv_plan(cudnnContext*)", "??", 0}, kForwardFrame, kMain});
  EXPECT_EQ(at_peak(snapshot_section(b.finish()), MemoryCategory::kWorkspace), kActivation);
}

}  // namespace
}  // namespace profgpu
