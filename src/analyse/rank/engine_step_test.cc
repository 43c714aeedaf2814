#include "analyse/rank/engine_step.h"

#include <gtest/gtest.h>

#include "analyse/rank/steps.h"
#include "tests/support/hand_trace.h"

namespace profgpu {
namespace {

std::string read(std::string_view name) {
  const auto step = engine_step(name);
  if (!step) return "none";
  const auto text = [](std::optional<int64_t> n) { return n ? std::to_string(*n) : std::string("?"); };
  return std::string(step_kind_name(step->kind)) + " " + text(step->sequences) + " " + text(step->tokens) + " " +
         text(step->context_tokens);
}

TEST(EngineStep, pairs_of_attention) {
  const auto vllm = engine_step("execute_9_context_1(sq512sk600sqsq262144sqsk307200)_generation_8(sq8sk800sqsq8sqsk800)");
  EXPECT_EQ(vllm->pairs, 308'000);
  EXPECT_EQ(vllm->query_pairs, 262'152);
  const auto sglang = engine_step("step[EXTEND bs=2 toks=12 c_sqsq=80 c_sqsk=120 c_sk=20]");
  EXPECT_EQ(sglang->pairs, 120);
  EXPECT_EQ(sglang->query_pairs, 80);
  EXPECT_EQ(engine_step("execute_context_0(0)_generation_32(32)")->pairs, std::nullopt);
}

TEST(EngineStep, vllm_in_the_spellings_of_its_versions) {
  EXPECT_EQ(read("execute_context_0(0)_generation_32(32)"), "decode 32 32 ?");
  EXPECT_EQ(read("execute_context_2(4096)_generation_0(0)"), "prefill 2 4096 ?");
  EXPECT_EQ(read("execute_context_1(512)_generation_7(7)"), "mixed 8 519 ?");
  EXPECT_EQ(read("execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)"),
            "decode 32 32 55086");
  EXPECT_EQ(read("execute_9_context_1(sq512sk600sqsq262144sqsk307200)_generation_8(sq8sk800sqsq8sqsk800)"),
            "mixed 9 520 1400");
  EXPECT_EQ(read("execute_new_3_cached_0"), "prefill 3 ? ?");
  EXPECT_EQ(read("execute_new_0_cached_12"), "decode 12 ? ?");
  EXPECT_EQ(read("execute_context_0(0)_generation_0(0)"), " 0 0 ?");   // a dummy batch
}

TEST(EngineStep, other_engines) {
  EXPECT_EQ(read("step[DECODE bs=32]"), "decode 32 32 ?");
  EXPECT_EQ(read("step[EXTEND bs=2 toks=12 c_sqsq=80 c_sqsk=120 c_sk=20]"), "prefill 2 12 20");
  EXPECT_EQ(read("step[MIXED bs=2 toks=6 c_sk=8 g_sk=12]"), "mixed 2 6 20");
  EXPECT_EQ(read("step[TARGET_VERIFY bs=4]"), "decode 4 ? ?");
  EXPECT_EQ(read("step[IDLE bs=0]"), " 0 ? ?");
  EXPECT_EQ(read("prefill[bs=2 tok=16384]"), "prefill 2 16384 ?");
  EXPECT_EQ(read("step[DECODE bs=1 g_sq=4 g_sqsq=16 g_sqsk=32768 g_sk=8192]"), "decode 1 4 8192") << "checks drafts";
  EXPECT_EQ(read("step[MIXED bs=2 c=1 g=1 c_sq=5 c_sk=8 c_sqsq=25 c_sqsk=40 g_sq=1 g_sk=12]"), "mixed 2 6 20");
  EXPECT_EQ(read("step[DECODE bs=2 toks=8 g_sq=4]"), "decode 2 8 ?");
  EXPECT_EQ(read("capture_32_DECODE"), "capture 32 ? ?");
  EXPECT_EQ(read("[Executor] _forward_step 12: 3 ctx reqs, 4 gen reqs"), "mixed 7 ? ?");
  EXPECT_EQ(read("[Executor] _forward_step: 0 ctx reqs, 32 gen reqs"), "decode 32 ? ?") << "older versions";
  EXPECT_EQ(read("[Executor] _forward_step 7: 2 ctx reqs, 1024 ctx tokens, 32 gen reqs"), "mixed 34 1056 ?");
  EXPECT_EQ(read("[Executor] _forward_step 8: 0 ctx reqs, 0 ctx tokens, 32 gen reqs"), "decode 32 32 ?");
  EXPECT_EQ(read("execute_diffusion_1_256x256"), " 1 ? ?");
}

TEST(EngineStep, captures_of_graphs) {
  for (const char* name : {"capture_32_FULL", "capture_32_PIECEWISE", "capture_32_draft_FULL", "capture_32_encoder_NONE",
                           "capture_32_FULL_DECODE_ONLY", "capture_32_decode", "capture_32_mixed_prefill"})
    EXPECT_EQ(read(name), "capture ? 32 ?") << name;
  EXPECT_EQ(read("capture_8_DRAFT_EXTEND"), "capture 8 ? ?");
  for (const char* name : {"capture_32_images_FULL", "capture_32_FULLY", "capture_32_draft", "capture_FULL"})
    EXPECT_EQ(read(name), "none") << name;
}

TEST(EngineStep, what_is_left_of_a_name_that_is_cut_short) {
  EXPECT_EQ(read("execute_32_context_0(sq0sk0sq"), "decode 32 ? ?");
  EXPECT_EQ(read("execute_context_4(40"), " ? ? ?");
  EXPECT_EQ(read("execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk5508"), "decode 32 ? ?");
  EXPECT_EQ(read("execute_context_0(0)_generation_3"), "decode ? ? ?");
  EXPECT_EQ(read("step[DECODE bs=3"), "decode ? ? ?");
  EXPECT_EQ(read("[Executor] _forward_step 12: 3 ctx"), " ? ? ?");
  EXPECT_EQ(read("[Executor] _forward_step 12: 3 ctx reqs, 40"), " ? ? ?") << "of 40 or more";
}

TEST(EngineStep, names_that_are_no_engines) {
  for (const char* name : {"", "execute_", "execute_query", "execute_context_menu", "step[12]", "step[",
                           "decode[x]", "capture_graph", "capture_3_images", "execute_new_user", "ProfilerStep#3",
                           "execute_context_99999999999999999999(3)", "execute_-1_context_0(0)_generation_1(1)"})
    EXPECT_EQ(read(name), "none") << name;
}

TEST(EngineStep, nested_ranges_are_one_step_and_kinds_have_their_own_warm_up) {
  HandTrace t;
  t.range("execute_context_1(512)_generation_0(0)", 0, 1000);
  for (int i = 0; i < 4; ++i) {
    t.range("execute_context_0(0)_generation_8(8)", 1000 + 100 * i, 1090 + 100 * i);
    t.range("step[DECODE bs=8]", 1010 + 100 * i, 1080 + 100 * i);
  }
  const Trace trace = t.build();
  const Facts facts(trace, {});
  const std::vector<Step>& steps = facts.get<Steps>().steps;
  ASSERT_EQ(steps.size(), 5u);
  EXPECT_EQ(steps[0].batch.kind, StepKind::kPrefill);
  EXPECT_EQ(steps[4].batch.kind, StepKind::kDecode);
  EXPECT_EQ(steps[4].index, 4);
  for (const Step& s : steps) EXPECT_FALSE(s.warmup) << s.name << s.index;
}

}  // namespace
}  // namespace profgpu
