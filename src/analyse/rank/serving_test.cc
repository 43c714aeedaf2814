#include "analyse/rank/serving.h"

#include <gtest/gtest.h>

#include "analyse/rank/steps.h"
#include "tests/support/hand_trace.h"

namespace profgpu {
namespace {

TEST(Serving, StepsThatCheckDraftsMayAcceptSeveralTokens) {
  const auto speculative = [](std::string_view name) {
    HandTrace t;
    for (int64_t at = 0; at < 3000; at += 1000) t.range(name, at, at + 900).kernel("k", at + 10, at + 15, at + 20, at + 950);
    const Trace trace = t.build();
    const Facts facts(trace, {});
    return Serving::compute(facts)->speculative;
  };
  EXPECT_TRUE(speculative("step[TARGET_VERIFY bs=16]"));
  EXPECT_TRUE(speculative("execute_context_0(0)_generation_4(16)"));
  EXPECT_FALSE(speculative("step[DECODE bs=16]"));
  EXPECT_FALSE(speculative("execute_context_2(300)_generation_0(0)"));
}

TEST(Serving, IsStepsByKindAndTokens) {
  HandTrace t;   // one prefill, then decode steps of 4 sequences every 1000 us, whose graph runs on after the range
  t.range("execute_context_2(300)_generation_0(0)", 0, 900).kernel("k", 10, 15, 20, 950);
  for (int64_t at = 1000; at < 6000; at += 1000) {
    t.range("execute_context_0(0)_generation_4(4)", at, at + 400);
    t.call("cudaGraphLaunch", at + 10, at + 20).kernel("k", at + 30, at + 35, at + 40, at + 600);
    t.range("scheduler", at + 450, at + 950);
  }
  const Trace trace = t.build();
  const Facts facts(trace, {});
  const std::optional<Serving> s = Serving::compute(facts);
  ASSERT_TRUE(s);
  ASSERT_EQ(s->kinds.size(), 2U);
  EXPECT_EQ(s->kinds[0].kind, StepKind::kPrefill);
  EXPECT_EQ(s->kinds[0].count, 1);
  EXPECT_EQ(s->kinds[0].median_ns, 950'000);
  ASSERT_TRUE(s->kinds[0].tokens_per_s);
  EXPECT_NEAR(*s->kinds[0].tokens_per_s, 300 * 1e6 / 950, 1e-6);
  EXPECT_EQ(s->kinds[1].kind, StepKind::kDecode);
  EXPECT_EQ(s->kinds[1].count, 5);
  EXPECT_EQ(s->kinds[1].median_ns, 600'000);
  EXPECT_EQ(s->kinds[1].sequences, 4);
  EXPECT_EQ(s->token_interval_ns, 1'000'000);
  ASSERT_TRUE(s->tokens_per_s);
  EXPECT_NEAR(*s->tokens_per_s, (2 + 5 * 4) * 1e6 / (950 + 5 * 600), 1e-6);
  EXPECT_EQ(s->between_ns, (50 + 4 * 400) * 1000);
  ASSERT_FALSE(s->between.empty());
  EXPECT_EQ(s->between[0].name, "scheduler");
  EXPECT_EQ(s->between[0].ns, 4 * 350'000);
  EXPECT_EQ(s->no_requests_ns, 0);
}

// Steps launch for 400 us and go on; their graphs run for 560 us. What lies between them belongs to the next step, but
// no wait for requests.
TEST(Serving, StepsElapseUntilTheirWorkIsDone) {
  HandTrace t;
  for (const int64_t at : {0, 1000, 2000, 3000, 90'000}) {
    t.range("execute_context_0(0)_generation_4(4)", at, at + 400);
    t.call("cudaGraphLaunch", at + 10, at + 20).kernel("k", at + 30, at + 35, at + 40, at + 600);
  }
  const Trace trace = t.build();
  const Facts facts(trace, {});
  std::vector<int64_t> host, elapsed;
  for (const Step& s : facts.get<Steps>().steps) host.push_back(s.duration_ns), elapsed.push_back(s.elapsed.length());
  EXPECT_EQ(host, std::vector<int64_t>(5, 400'000));
  EXPECT_EQ(elapsed, (std::vector<int64_t>{600'000, 1'000'000, 1'000'000, 1'000'000, 600'000}));
}

// Two steps of a training loop whose device lags behind: each lasts until its own work is done.
TEST(Steps, ElapseBehindTheHost) {
  HandTrace t;
  t.range("ProfilerStep#1", 0, 100).kernel("a", 10, 15, 20, 300);
  t.range("ProfilerStep#2", 100, 200).kernel("b", 110, 115, 300, 580);
  t.range("ProfilerStep#3", 1000, 1100).kernel("c", 1010, 1015, 1020, 1050);
  const Trace trace = t.build();
  const Facts facts(trace, {});
  std::vector<Interval> elapsed;
  for (const Step& s : facts.get<Steps>().steps) elapsed.push_back(s.elapsed);
  EXPECT_EQ(elapsed, (std::vector<Interval>{{0, 300'000}, {300'000, 580'000}, {1'000'000, 1'100'000}}));
}

// A product of 4 tokens with 8 x 16 weights in each decode step, and a sampler that is not known for 4 % of the time.
TEST(Serving, ATokenHasItsFlopsAndBytes) {
  HandTrace t;
  for (int64_t at = 0; at < 3000; at += 1000) {
    t.range("execute_context_0(0)_generation_4(4)", at, at + 400);
    t.shaped_op("aten::mm", at + 10, at + 30, "[[4, 8], [8, 16]]", R"(["c10::BFloat16", "c10::BFloat16"])");
    t.kernel("gemm", at + 15, at + 20, at + 40, at + 300);
    t.kernel("sampler", at + 35, at + 38, at + 300, at + 310);
  }
  t.range("execute_context_2(300)_generation_0(0)", 4000, 4900).kernel("k", 4010, 4015, 4020, 4950);
  const Trace trace = t.build();
  const Facts facts(trace, {});
  const std::optional<Serving> s = Serving::compute(facts);
  ASSERT_TRUE(s);
  ASSERT_EQ(s->kinds.size(), 2U);
  EXPECT_EQ(s->kinds[1].kind, StepKind::kDecode);
  EXPECT_EQ(s->kinds[1].flops_per_token, 2 * 8 * 16);
  EXPECT_EQ(s->kinds[1].bytes_per_token, 2.0 * (4 * 8 + 8 * 16 + 4 * 16) / 4);
  EXPECT_TRUE(s->kinds[1].flops_is_lower_bound);
  EXPECT_TRUE(s->kinds[1].bytes_is_lower_bound);
  EXPECT_FALSE(s->kinds[0].flops_per_token);   // nothing is known of that kernel
}

TEST(Serving, StepsWithinTheProfilersCountByThemselves) {
  HandTrace t;
  t.range("ProfilerStep#1", 0, 4000);
  for (int64_t at = 0; at < 4000; at += 1000)
    t.range("execute_context_0(0)_generation_4(4)", at + 100, at + 500).kernel("k", at + 110, at + 115, at + 120, at + 700);
  const Trace trace = t.build();
  const Facts facts(trace, {});
  EXPECT_EQ(facts.get<Steps>().steps.size(), 1U);
  const std::optional<Serving> s = Serving::compute(facts);
  ASSERT_TRUE(s);
  ASSERT_EQ(s->kinds.size(), 1U);
  EXPECT_EQ(s->kinds[0].count, 4);
  EXPECT_EQ(s->kinds[0].sequences, 4);
  EXPECT_EQ(s->kinds[0].median_ns, 600'000);
  EXPECT_EQ(s->token_interval_ns, 1'000'000);
}

TEST(Serving, TrainingIsNone) {
  HandTrace t;
  t.range("ProfilerStep#1", 0, 100).kernel("k", 10, 15, 20, 50);
  const Trace trace = t.build();
  EXPECT_FALSE(Serving::compute(Facts(trace, {})));
}

}  // namespace
}  // namespace profgpu
