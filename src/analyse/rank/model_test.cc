#include "analyse/rank/model.h"

#include <gtest/gtest.h>

#include "analyse/rank/work_per_step.h"
#include "support/hand_trace.h"
#include "support/worked_trace.h"

namespace profgpu {
namespace {

// Two layers: 4 x 64^2 around attention and 3 x 64 x 128 each; 1000 x 64 to the vocabulary.
constexpr const char* kTiny = R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
  "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 1000, "torch_dtype": "bfloat16"})";
constexpr double kWeights = 2 * (4.0 * 64 * 64 + 3.0 * 64 * 128) + 1000.0 * 64;
constexpr double kBody = kWeights - 1000.0 * 64;   // without the product to the vocabulary
constexpr double kAttentionOfAKey = 4.0 * 2 * 64;   // 2 layers, 4 heads of 16, products with keys and with values

AnalysisOptions options(std::optional<double> tokens, std::optional<double> length = {}) {
  AnalysisOptions all;
  all.model = *model_config_from_json(kTiny, "config.json");
  all.load = {.tokens = tokens, .samples = {}, .sequence_length = length};
  return all;
}

// A step of 1 ms with one product of a kernel name that says BF16, but no shapes.
HandTrace one_step(bool backward) {
  HandTrace t;
  t.range("ProfilerStep#1", 0, 1000);
  t.op("aten::mm", 10, 20).kernel("cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_32x6_tn_align8", 11, 12, 100, 300);
  if (backward) {
    t.op("autograd::engine::evaluate_function: MmBackward0", 400, 500, "backward");
    t.kernel("other", 410, 420, 430, 440, "backward");
  }
  return t;
}

ModelSection model_of(Trace trace, AnalysisOptions given) {
  trace.devices.push_back(h100());
  const Facts facts(trace, std::move(given));
  return *ModelSection::compute(facts);
}

TEST(Model, MfuIsKnownWithoutShapes) {
  const ModelSection m = model_of(one_step(false).build(), options(1e6));
  EXPECT_FALSE(m.training);
  EXPECT_EQ(*m.flops_per_token, 2 * kBody);
  EXPECT_FALSE(m.attention_flops_per_token);
  EXPECT_EQ(*m.flops_per_step, 1e6 * 2 * kBody);
  EXPECT_EQ(m.precision, "bf16");
  EXPECT_NEAR(*m.tflops, 1e6 * 2 * kBody / 1e6 / 1e3, 1e-6);
  EXPECT_NEAR(*m.mfu_pct, 100 * *m.tflops / 989.4, 1e-6);
  EXPECT_EQ(m.tokens_source, "--tokens-per-step");
  EXPECT_FALSE(m.op_flops_pct);
  EXPECT_EQ(m.notes.size(), 2U);   // attention is left out, and the product to the vocabulary
  EXPECT_TRUE(m.mfu_is_lower_bound());
}

TEST(Model, NoDeviceIsFasterThanItsPeak) {
  const ModelSection m = model_of(one_step(false).build(), options(1e12));
  EXPECT_FALSE(m.tflops);
  EXPECT_FALSE(m.mfu_pct);
  EXPECT_NE(m.notes.back().find("do not fit this trace"), std::string::npos) << m.notes.back();
}

TEST(Model, TrainingTakesThreeTimesTheForwardPassWithAttention) {
  const ModelSection m = model_of(one_step(true).build(), options(4096, 511));
  EXPECT_TRUE(m.training);
  EXPECT_EQ(*m.flops_per_token, 6 * kWeights);
  EXPECT_EQ(*m.attention_flops_per_token, 3 * kAttentionOfAKey * 256);   // half of 511, and the token itself
  EXPECT_EQ(*m.flops_per_step, 4096 * (6 * kWeights + 3 * kAttentionOfAKey * 256));
}

TEST(Model, AnEnginesStepsSayTheirTokensAndKeys) {
  HandTrace t;
  t.range("execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk1600sqsq32sqsk1600)", 0, 500);
  t.kernel("cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_32x6_tn_align8", 11, 12, 100, 300);
  const ModelSection m = model_of(t.build(), options({}));
  EXPECT_EQ(m.tokens_source, "the engine's steps");
  EXPECT_EQ(*m.tokens_per_step, 32);
  EXPECT_EQ(*m.attention_flops_per_token, kAttentionOfAKey * 50);
  EXPECT_EQ(*m.flops_per_token, 2 * kWeights);   // each of its tokens predicts another one
  EXPECT_FALSE(m.mfu_is_lower_bound());
}

// Two prompts of 32 tokens: only their last ones have a product to the vocabulary.
TEST(Model, APromptsTokensDoNotAllPredict) {
  HandTrace t;
  t.range("execute_64_context_2(sq64sk64sqsq2048sqsk2048)_generation_0(sq0sk0sqsq0sqsk0)", 0, 500);
  t.kernel("cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_32x6_tn_align8", 11, 12, 100, 300);
  const ModelSection m = model_of(t.build(), options({}));
  EXPECT_EQ(*m.tokens_per_step, 64);
  EXPECT_NEAR(*m.flops_per_token, 2 * kBody + 2 * 64000.0 / 32, 1e-6);
  EXPECT_FALSE(m.mfu_is_lower_bound());
}

TEST(Model, LayersWithWindowsHaveFewerKeys) {
  constexpr const char* kWindowed = R"({"model_type": "gpt_oss", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 16, "vocab_size": 1000, "sliding_window": 4})";
  AnalysisOptions given = options(4096, 8);
  given.model = *model_config_from_json(kWindowed, "config.json");
  const ModelSection m = model_of(one_step(true).build(), given);
  // Of 8 tokens: 1 to 8 keys in one layer, 1, 2, 3 and five times 4 in the other.
  EXPECT_NEAR(*m.attention_flops_per_token, 3 * kAttentionOfAKey / 2 * (36.0 / 8 + 26.0 / 8), 1e-6);
  EXPECT_FALSE(m.mfu_is_lower_bound());
  HandTrace t;   // 32 sequences of 50 tokens on average
  t.range("execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk1600sqsq32sqsk1600)", 0, 500);
  t.kernel("cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_32x6_tn_align8", 11, 12, 100, 300);
  given.load = {};
  const ModelSection served = model_of(t.build(), given);
  EXPECT_NEAR(*served.attention_flops_per_token, kAttentionOfAKey / 2 * 50, 1e-6);
  EXPECT_TRUE(served.mfu_is_lower_bound());
  EXPECT_EQ(served.notes.front(), "attention is left out of 1 of 2 layers, which have windows of 4 tokens: how long each "
                                  "sequence is, is not known");
}

TEST(Model, ATypeThatIsNotKnownIsANote) {
  AnalysisOptions given = options(1e6);
  given.model = *model_config_from_json(R"({"model_type": "unheard"})", "config.json");
  const ModelSection m = model_of(one_step(false).build(), given);
  EXPECT_EQ(m.type, "unheard");
  EXPECT_FALSE(m.parameters);
  EXPECT_FALSE(m.flops_per_token);
  EXPECT_FALSE(m.mfu_pct);
  ASSERT_EQ(m.notes.size(), 1U);
  EXPECT_TRUE(m.notes[0].starts_with("models of type \"unheard\" are not known; for MFU, record the shapes")) << m.notes[0];
}

TEST(Model, WhatIsNotKnownIsSaid) {
  const ModelSection m = model_of(one_step(false).build(), options({}));
  EXPECT_FALSE(m.tokens_per_step);
  EXPECT_FALSE(m.mfu_pct);
  EXPECT_EQ(m.notes.size(), 3U);
  HandTrace t;
  t.range("execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk1600sqsq32sqsk1600)", 0, 500);
  t.kernel("gemm", 11, 12, 100, 300);
  Trace engine = t.build();
  engine.distributed.world_size = 2;   // its tokens may be of both ranks together
  EXPECT_FALSE(model_of(std::move(engine), options({})).tokens_per_step);
}

// One product with shapes: 2 x 8 x 64 x 64 FLOPs, 8 tokens.
TEST(Model, IsCheckedAgainstWhatShapesSay) {
  HandTrace t;
  t.range("ProfilerStep#1", 0, 1000);
  t.shaped_op("aten::mm", 10, 20, "[[8, 64], [64, 64]]", R"(["c10::BFloat16", "c10::BFloat16"])");
  t.kernel("gemm", 11, 12, 100, 300);
  const ModelSection m = model_of(t.build(), options(8));
  EXPECT_EQ(*m.op_flops_per_step, 2.0 * 8 * 64 * 64);
  EXPECT_NEAR(*m.op_flops_pct, 100 * 2.0 * 8 * 64 * 64 / (8 * 2 * kBody), 1e-6);
  EXPECT_TRUE(m.notes.back().ends_with("check the tokens of a step for each GPU")) << m.notes.back();
}

TEST(WorkPerStep, IsPerTokenAndSample) {
  HandTrace t;
  for (int64_t at = 0; at < 2000; at += 1000) {
    t.range("ProfilerStep#" + std::to_string(at / 1000 + 5), at, at + 1000);
    t.shaped_op("aten::mm", at + 10, at + 20, "[[8, 64], [64, 64]]", R"(["c10::BFloat16", "c10::BFloat16"])");
    t.kernel("gemm", at + 11, at + 12, at + 100, at + 300);
  }
  Trace trace = t.build();
  AnalysisOptions given;
  given.load = {.tokens = 8, .samples = 2, .sequence_length = {}};
  const Facts facts(trace, given);
  const WorkPerStep& w = facts.get<WorkPerStep>();
  EXPECT_NEAR(w.flops_known_pct, 100, 1e-9);
  EXPECT_EQ(*w.flops, 2.0 * 8 * 64 * 64);
  EXPECT_EQ(*w.bytes, 2.0 * (8 * 64 + 64 * 64 + 8 * 64));
  EXPECT_EQ(*w.flops_per_token, 2.0 * 64 * 64);
  EXPECT_EQ(*w.flops_per_sample, 8.0 * 64 * 64);
  EXPECT_EQ(*w.bytes_per_token, *w.bytes / 8);
  const Facts without(trace, {});
  EXPECT_FALSE(without.get<WorkPerStep>().flops_per_token);
  EXPECT_EQ(*without.get<WorkPerStep>().flops, *w.flops);
}

}  // namespace
}  // namespace profgpu
