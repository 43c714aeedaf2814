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

TEST(StackRoles, WhatAnObjectMakesIsParametersWhereGradientsAreAsLarge) {
  const auto of = [](const Frame& frame) {
    SnapshotBuilder b;
    b.alloc(0x1000, kParameter, Frames{frame, kMain});
    b.alloc(0x2000, 7 * kParameter, Frames{frame, kMain});
    for (int step = 0; step < 2; ++step) {
      b.alloc(0x10000, kActivation, SnapshotBuilder::kForward);
      b.alloc(0x20000, kParameter, SnapshotBuilder::kGradient);
      b.free(0x10000, kActivation);
      b.alloc(0x30000, kParameter, SnapshotBuilder::kOptimizer), b.free(0x30000, kParameter);
      b.free(0x20000, kParameter);
    }
    return snapshot_section(b.finish());
  };
  const SnapshotSection own = of({"ReplayBuffer.__init__", "/me/rl/buffer.py", 14});
  EXPECT_EQ(at_peak(own, MemoryCategory::kParameter), kParameter);
  EXPECT_EQ(at_peak(own, MemoryCategory::kUnknown), 7 * kParameter);
  const SnapshotSection layer = of({"Linear.__init__", "/x/site-packages/torch/nn/modules/linear.py", 100});
  EXPECT_EQ(at_peak(layer, MemoryCategory::kParameter), 8 * kParameter);
  const SnapshotSection cache = of({"KVCache.__init__", "/me/gpt-fast/model.py", 70});
  EXPECT_EQ(at_peak(cache, MemoryCategory::kCache), 8 * kParameter);
  const SnapshotSection buckets = of({"DistributedDataParallel._ddp_init_helper",
                                      "/x/site-packages/torch/nn/parallel/distributed.py", 1300});
  EXPECT_EQ(at_peak(buckets, MemoryCategory::kCommunication), 8 * kParameter);
}

TEST(StackRoles, AMegatronBufferHoldsGradients) {
  const auto buffer = [](int32_t line) {
    return Frames{{"_ParamAndGradBuffer.__init__", "/opt/megatron/core/distributed/param_and_grad_buffer.py", line},
                  {"__init__", "/opt/megatron/core/distributed/distributed_data_parallel.py", 250},
                  kMain};
  };
  for (const bool sharded : {false, true}) {
    SnapshotBuilder b;
    if (sharded) b.alloc(0x1000, kParameter, buffer(590));
    b.alloc(0x2000, 2 * kParameter, buffer(600));
    b.alloc(0x10000, kActivation, SnapshotBuilder::kForward);
    const SnapshotSection s = snapshot_section(b.finish());
    EXPECT_EQ(at_peak(s, MemoryCategory::kGradient), 2 * kParameter);
    EXPECT_EQ(at_peak(s, MemoryCategory::kParameter), sharded ? kParameter : 0);
  }
}

TEST(StackRoles, ShardsOfGradientsAreGradients) {
  const std::string_view fsdp = "/x/site-packages/torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py";
  const Frames reduce{{"DefaultReduceScatter.allocate", fsdp, 110},
                      {"foreach_reduce", fsdp, 500},
                      {"FSDPParamGroup.post_backward",
                       "/x/site-packages/torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py", 480},
                      kEngine};
  SnapshotBuilder b;
  for (int step = 0; step < 2; ++step) {
    b.alloc(0x10000, kActivation, SnapshotBuilder::kForward);
    b.alloc(0x20000, kActivation, SnapshotBuilder::kBackward);
    b.alloc(0x30000, kParameter, reduce);
    b.alloc(0x40000, 8 * kParameter, reduce);   // what is reduced goes at once
    b.free(0x40000, 8 * kParameter);
    b.free(0x10000, kActivation), b.free(0x20000, kActivation);
    b.alloc(0x50000, 5 * kActivation, SnapshotBuilder::kOptimizer), b.free(0x50000, 5 * kActivation);
    b.free(0x30000, kParameter, {kZeroGrad, kMain});
  }
  const SnapshotSection s = snapshot_section(b.finish());
  EXPECT_EQ(at_peak(s, MemoryCategory::kGradient), kParameter);
  EXPECT_EQ(at_peak(s, MemoryCategory::kCommunication), 0);
}

TEST(StackRoles, ACacheThatGrowsWithEachTokenIsAKeyValueCache) {
  const auto generates = [](bool keeps) {
    const Frames cat{{"CausalSelfAttention.forward", "/me/model.py", 80}, kForwardFrame, kMain};
    SnapshotBuilder b;
    uint64_t next = 0x100000;
    std::vector<uint64_t> held;
    for (int64_t token = 0; token < 12; ++token)
      for (size_t layer = 0; layer < 3; ++layer) {
        b.alloc(next, 1000 + 10 * token, cat);
        if (!keeps) b.free(next, 1000 + 10 * token);
        if (keeps && token > 0) b.free(held[layer], 1000 + 10 * (token - 1));
        if (token == 0) held.push_back(next);
        held[layer] = next, next += 0x1000;
      }
    return snapshot_section(b.finish());
  };
  EXPECT_EQ(at_peak(generates(true), MemoryCategory::kCache), generates(true).peak_allocated_bytes);
  EXPECT_EQ(at_peak(generates(false), MemoryCategory::kCache), 0);
}

TEST(StackRoles, ScoresAreAttentionsWhateverMakesThem) {
  const std::string_view functional = "/x/site-packages/torch/nn/functional.py";
  const Frame at{"CausalSelfAttention.forward", "/me/model.py", 67}, softmax{"softmax", functional, 2140};
  const Frame drop{"Dropout.forward", "/x/site-packages/torch/nn/modules/dropout.py", 70};
  const Frame linear{"Linear.forward", "/x/site-packages/torch/nn/modules/linear.py", 125};
  SnapshotBuilder b;
  b.alloc(0x1000, 4096, Frames{softmax, at, kForwardFrame, kMain});
  b.alloc(0x3000, 4096, Frames{at, kForwardFrame, kMain});           // the scores before it
  b.alloc(0x5000, 4096, Frames{drop, at, kForwardFrame, kMain});
  b.alloc(0x7000, 1024, Frames{drop, at, kForwardFrame, kMain});     // its mask
  b.alloc(0x8000, 4096, Frames{linear, at, kForwardFrame, kMain});   // as large, but a layer's
  b.alloc(0xa000, 4096, Frames{{"MLP.forward", "/me/model.py", 90}, kForwardFrame, kMain});
  b.alloc(0xc000, 100, Frames{at, kForwardFrame, kMain});
  b.alloc(0xd000, 100, SnapshotBuilder::kBackward);
  const SnapshotSection s = snapshot_section(b.finish());
  for (const CategoryRow& c : s.peak.categories)
    if (c.category == MemoryCategory::kActivation) {
      EXPECT_EQ(c.attention_bytes, 3 * 4096 + 1024);
    }
}

TEST(StackRoles, ClassesOfModulesAreAPath) {
  const auto module = [](const Frames& frames, const Frames& more = {}) {
    SnapshotBuilder b;
    b.alloc(0x1000, kActivation, frames);
    if (!more.empty()) b.alloc(0x10000, kActivation, more);
    return snapshot_section(b.finish()).peak.holders.front().module;
  };
  const Frame mlp{"MLP.forward", "/me/model.py", 30}, block{"Block.forward", "/me/model.py", 40};
  const Frame gpt{"make.<locals>.GPT.forward", "/me/model.py", 60};
  const Frame linear{"Linear.forward", "/x/site-packages/torch/nn/modules/linear.py", 125};
  EXPECT_EQ(module(Frames{mlp, block, gpt, kMain}), "GPT.Block.MLP");
  EXPECT_EQ(module(Frames{linear, mlp, gpt, kMain}, Frames{mlp, gpt, kMain}), "GPT.MLP");
  EXPECT_EQ(module(Frames{kForwardFrame, kMain}), "");
}

TEST(StackRoles, WhatInductorWritesIsNoLineOfTheProgram) {
  SnapshotBuilder b;
  b.alloc(0x1000, kActivation, Frames{{"call", "/tmp/torchinductor_root/cy/ccy4xq2.py", 100}, kForwardFrame, kMain});
  EXPECT_EQ(snapshot_section(b.finish()).peak.holders.front().file, "job/model.py");
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

// ZeRO 2 of two ranks: the flat 16-bit parameters are as large as this rank's part of the master weights.
TEST(StackRoles, DeepSpeedsMasterWeightsAreTheOptimizers) {
  constexpr int64_t kFlat = 1 << 20, kPart = kFlat;
  constexpr std::string_view kZero = "/x/site-packages/deepspeed/runtime/zero/stage_1_and_2.py";
  const Frame engine{"DeepSpeedEngine.__init__", "/x/site-packages/deepspeed/runtime/engine.py", 300};
  const auto in = [&](const char* function, int line) { return Frames{{function, kZero.data(), line}, engine, kMain}; };
  for (const bool native : {false, true}) {
    const auto with_op = [&](const char* op, Frames frames) {
      if (native) frames.insert(frames.begin(), {op, "??", 0});
      return frames;
    };
    const char* const init = "DeepSpeedZeroOptimizer.__init__";
    SnapshotBuilder b;
    b.alloc(0x100000, kFlat, with_op("at::_ops::to_device::call(at::Tensor const&)", in(init, 400)));
    b.alloc(0x200000, kPart / 2, with_op("at::_ops::clone::call(at::Tensor const&)", in(init, 450)));
    b.alloc(0x300000, kPart, with_op("at::_ops::to_dtype::call(at::Tensor const&)", in(init, 450)));
    b.free(0x200000, kPart / 2);
    b.alloc(0x400000, kPart / 2, in("DeepSpeedZeroOptimizer.initialize_gradient_partitioning_data_structures", 600));
    for (int step = 0; step < 3; ++step) {
      b.alloc(0x900000, kActivation, SnapshotBuilder::kForward);
      b.alloc(0xA00000, kParameter, SnapshotBuilder::kBackward);
      b.free(0x900000, kActivation), b.free(0xA00000, kParameter);
      if (step == 0) b.alloc(0x500000, kPart, Frames{kStep, kWrapper, kMain}), b.alloc(0x600000, kPart, Frames{kStep, kWrapper, kMain});
    }
    b.action(AllocationAction::kSnapshot, 0, 0);
    const SnapshotSection s = snapshot_section(b.finish());
    EXPECT_EQ(at_peak(s, MemoryCategory::kOptimizerState), 3 * kPart) << native;
  }
}

}  // namespace
}  // namespace profgpu
