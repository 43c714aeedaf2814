// Rules of limits on traces by hand: what they name, what it costs at most, and where they are silent.
#include <gtest/gtest.h>

#include <algorithm>

#include "analyse/rank/roofline.h"
#include "analyse/rules/measure.h"
#include "tests/support/hand_trace.h"
#include "tests/support/worked_trace.h"

namespace profgpu {
namespace {

constexpr int64_t kSteps = 12;

/// Steps of a millisecond that launch one kernel of `busy_us` each and wait for it.
HandTrace steps_with(std::string_view op, std::string_view kernel, int64_t busy_us) {
  HandTrace hand;
  for (int64_t t = 0; t < kSteps * 1000; t += 1000)
    hand.range("ProfilerStep#" + std::to_string(t / 1000), t, t + 1000)
        .shaped_op(op, t + 10, t + 20, "[[4096, 2048], [2048, 4096]]", "[\"c10::BFloat16\", \"c10::BFloat16\"]")
        .kernel(kernel, t + 11, t + 12, t + 30, t + 30 + busy_us)
        .call("cudaDeviceSynchronize", t + 22, t + 32 + busy_us);
  return hand;
}

// `blocks`: of each kernel.
std::vector<Finding> findings_of(HandTrace& hand, const OpWork& work, int32_t blocks = 0) {
  Trace trace = hand.build();
  for (ActivityArgs& args : trace.activity_args)
    if (blocks > 0) args.grid[0] = blocks, args.grid[1] = args.grid[2] = 1;
  const WorkedTrace t(std::move(trace), std::vector<OpWork>(kSteps, work));
  Evidence evidence;
  evidence.ranks.push_back(diagnose_rank({0, &t.facts}, {}));
  return diagnose(evidence).findings;
}

const Finding* found(const std::vector<Finding>& findings, std::string_view rule) {
  return first_where(findings, [&](const Finding& f) { return f.rule == rule; });
}

constexpr const char* kGemm = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_cublas";

TEST(SlowProducts, CostAtMostWhatReachingNineTenthsOfTheLimitSaves) {
  HandTrace hand = steps_with("aten::mm", kGemm, 900);   // needs 100 us
  const std::vector<Finding> findings = findings_of(hand, kHundred);
  const Finding* f = found(findings, "slow-products");
  ASSERT_NE(f, nullptr);
  EXPECT_NEAR(*f->value, 90, 0.1);
  ASSERT_TRUE(f->cost_ns);
  const double most_ns = kSteps * (900'000 - 100'000 / 0.9);
  EXPECT_LE(static_cast<double>(*f->cost_ns), most_ns + 1);
  EXPECT_GT(static_cast<double>(*f->cost_ns), 0.8 * most_ns);
  EXPECT_NE(f->evidence.at(0).find("aten::mm [[4096, 2048], [2048, 4096]]: at 11 % of its limit, 110 of 989 TFLOP/s"),
            std::string::npos)
      << f->evidence.at(0);
  EXPECT_EQ(found(findings, "memory-bound"), nullptr);
}

// 153 blocks on 132 multiprocessors take as long as 264.
TEST(SlowProducts, NameWavesThatAreMostlyEmpty) {
  const auto evidence = [](int32_t blocks) -> std::string {
    HandTrace hand;
    for (int64_t t = 0; t < kSteps * 1000; t += 1000)
      hand.range("ProfilerStep#" + std::to_string(t / 1000), t, t + 1000)
          .shaped_op("aten::mm", t + 10, t + 20, "[[2176, 4096], [4096, 2304]]", "[\"c10::BFloat16\", \"c10::BFloat16\"]")
          .kernel(kGemm, t + 11, t + 12, t + 30, t + 930)
          .call("cudaDeviceSynchronize", t + 22, t + 932);
    OpWork work = kHundred;
    work.product = {1, 2176, 2304, 4096};
    const std::vector<Finding> findings = findings_of(hand, work, blocks);
    const Finding* f = found(findings, "slow-products");
    return f == nullptr ? "" : f->evidence.at(0);
  };
  EXPECT_TRUE(evidence(153).ends_with("153 blocks are 1.2 waves on 132 multiprocessors, which take as long as 2"))
      << evidence(153);
  EXPECT_EQ(evidence(264).find("waves"), std::string::npos) << evidence(264);
}

// Two tiles of 128 x 128 for 132 multiprocessors, each with a long sum.
TEST(SlowProducts, WithFewTilesAndALongInnerSizeAreSplitAlongIt) {
  HandTrace hand = steps_with("aten::mm", kGemm, 900);
  OpWork work = kHundred;
  work.product = {1, 128, 256, 131072};
  const std::vector<Finding> findings = findings_of(hand, work);
  const Finding* f = found(findings, "slow-products");
  ASSERT_NE(f, nullptr);
  EXPECT_TRUE(f->evidence.at(0).ends_with("only 2 tiles of 128 x 128")) << f->evidence.at(0);
  EXPECT_NE(f->fix.at(0).find("split-K"), std::string::npos) << f->fix.at(0);
}

TEST(MisalignedGemm, IsLeftToItsRuleWithACost) {
  HandTrace hand;
  for (int64_t t = 0; t < kSteps * 1000; t += 1000)
    hand.range("ProfilerStep#" + std::to_string(t / 1000), t, t + 1000)
        .shaped_op("aten::mm", t + 10, t + 20, "[[4096, 2049], [2049, 4096]]", "[\"c10::BFloat16\", \"c10::BFloat16\"]")
        .kernel(kGemm, t + 11, t + 12, t + 30, t + 930)
        .call("cudaDeviceSynchronize", t + 22, t + 932);
  const std::vector<Finding> findings = findings_of(hand, kHundred);
  EXPECT_EQ(found(findings, "slow-products"), nullptr);
  const Finding* f = found(findings, "misaligned-gemm");
  ASSERT_NE(f, nullptr);
  ASSERT_TRUE(f->cost_ns);
  EXPECT_LE(static_cast<double>(*f->cost_ns), kSteps * (900'000 - 100'000 / 0.9) + 1);
  EXPECT_GT(static_cast<double>(*f->cost_ns), 0.8 * kSteps * (900'000 - 100'000 / 0.9));
}

// Of a step of 1000 us, what lies between the two kernels: 2 x 16.8 MB at 3350 GB/s.
TEST(FusableElementwise, CostIsWhatTheMemoryTakesBetweenTheKernels) {
  const auto cost_of = [](const char* shapes) {
    constexpr const char* kKernel = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>";
    HandTrace hand;
    for (int64_t t = 0; t < kSteps * 1000; t += 1000) {
      hand.range("ProfilerStep#" + std::to_string(t / 1000), t, t + 1000);
      hand.shaped_op("aten::pow", t + 10, t + 20, shapes, "[\"float\"]").kernel(kKernel, t + 11, t + 12, t + 30, t + 480);
      hand.shaped_op("aten::exp", t + 22, t + 28, shapes, "[\"float\"]").kernel(kKernel, t + 23, t + 24, t + 480, t + 930);
      hand.call("cudaDeviceSynchronize", t + 29, t + 940);
    }
    const std::vector<Finding> findings = findings_of(hand, OpWork());
    const Finding* f = found(findings, "fusable-elementwise");
    EXPECT_NE(f, nullptr);
    return f == nullptr ? std::nullopt : f->cost_ns;
  };
  const std::optional<int64_t> cost = cost_of("[[4096, 1024]]");
  ASSERT_TRUE(cost);
  EXPECT_NEAR(static_cast<double>(*cost), kSteps * 10'016.0, 0.02 * kSteps * 10'016.0);
  EXPECT_FALSE(cost_of("[]"));
}

TEST(SlowProducts, AreSilentFromHalfOfTheLimitOn) {
  HandTrace half = steps_with("aten::mm", kGemm, 200), below = steps_with("aten::mm", kGemm, 204);
  EXPECT_EQ(found(findings_of(half, kHundred), "slow-products"), nullptr);
  EXPECT_NE(found(findings_of(below, kHundred), "slow-products"), nullptr);
}

// Another finding has this time already.
TEST(SlowProducts, AreSilentWhereTensorCoresAreMissing) {
  HandTrace hand = steps_with("aten::mm", "ampere_sgemm_128x64_tn", 900);
  OpWork work = kHundred;
  work.precision = Precision::kFp32, work.flops = 6'700'000'000;   // 100 us without tensor cores
  const std::vector<Finding> findings = findings_of(hand, work);
  EXPECT_NE(found(findings, "full-precision-gemm"), nullptr);
  EXPECT_EQ(found(findings, "slow-products"), nullptr);
}

TEST(MemoryBound, NamesKernelsBelowHalfOfTheMemorysRate) {
  HandTrace slow = steps_with("aten::index_select", "indexSelectLargeIndex", 900);
  HandTrace good = steps_with("aten::index_select", "indexSelectLargeIndex", 150);
  const std::vector<Finding> findings = findings_of(slow, kBytes);
  const Finding* f = found(findings, "memory-bound");
  ASSERT_NE(f, nullptr);
  EXPECT_NE(f->evidence.at(0).find("at 11 % of its limit, 372 GB/s"), std::string::npos) << f->evidence.at(0);
  EXPECT_EQ(found(findings, "slow-products"), nullptr);
  EXPECT_EQ(found(findings_of(good, kBytes), "memory-bound"), nullptr);
}

// An argument that is both read and written counts once in the bytes, so that half of the limit is a quarter there.
TEST(MemoryBound, CompiledKernelsMayMoveTheirArgumentsTwice) {
  const auto found_at = [](std::string_view op, int64_t busy_us) {
    HandTrace hand = steps_with(op, "triton_poi_fused_add_0", busy_us);   // needs 100 us
    const std::vector<Finding> all = findings_of(hand, kBytes);
    return found(all, "memory-bound") != nullptr;
  };
  EXPECT_TRUE(found_at("aten::index_select", 300));
  EXPECT_FALSE(found_at("triton_poi_fused_add_0", 300));
  EXPECT_TRUE(found_at("triton_poi_fused_add_0", 500));
}

TEST(LowMfu, SaysHowMuchOfThePeakIsUsedAndWhatTheRestIs) {
  HandTrace hand = steps_with("aten::mm", kGemm, 150);   // 10 % of the time at peak
  const std::vector<Finding> findings = findings_of(hand, kHundred);
  const Finding* f = found(findings, "low-mfu");
  ASSERT_NE(f, nullptr);
  EXPECT_NEAR(*f->value, 10, 0.1);
  EXPECT_EQ(f->severity, Severity::kInfo);
  EXPECT_FALSE(f->cost_ns);
  OpWork more = kHundred;
  more.flops *= 3;
  HandTrace busy = steps_with("aten::mm", kGemm, 400);
  EXPECT_EQ(found(findings_of(busy, more), "low-mfu"), nullptr);
}

// What an uncounted product computes could be all that MFU lacks.
TEST(LowMfu, IsSilentWhereUncountedProductsCouldRaiseIt) {
  const auto found_beside = [](int64_t uncounted_us) {
    HandTrace hand;
    std::vector<OpWork> works;
    for (int64_t t = 0; t < kSteps * 1000; t += 1000) {
      hand.range("ProfilerStep#" + std::to_string(t / 1000), t, t + 1000)
          .op("aten::mm", t + 10, t + 20).kernel(kGemm, t + 11, t + 12, t + 30, t + 830)
          .op("aten::mm", t + 22, t + 24).kernel(kGemm, t + 23, t + 24, t + 830, t + 830 + uncounted_us);
      works.insert(works.end(), {kHundred, OpWork()});
    }
    const WorkedTrace t(hand.build(), works);
    Evidence evidence;
    evidence.ranks.push_back(diagnose_rank({0, &t.facts}, {}));
    const std::vector<Finding> all = diagnose(evidence).findings;
    const Finding* f = found(all, "low-mfu");
    return f == nullptr ? std::string() : f->what;
  };
  EXPECT_EQ(found_beside(40), "the run uses at least 10.0 % of the GPU's peak FLOP rate (MFU)");   // 5 % of the time
  EXPECT_EQ(found_beside(120), "");   // 13 %
}

// Names tell tensor cores where they are known. Of others the data's type does, and what memory limits needs none.
TEST(FullPrecisionGemm, IsOfFp32ThatComputingLimits) {
  const auto said = [](Precision precision, int64_t flops, int64_t bytes) {
    HandTrace hand = steps_with("aten::mm", "my_gemm_kernel", 900);
    return found(findings_of(hand, {.flops = flops, .bytes = bytes, .precision = precision}), "full-precision-gemm") !=
           nullptr;
  };
  constexpr int64_t kMuch = 20'000'000'000, kLittle = 1000;
  EXPECT_TRUE(said(Precision::kFp32, kMuch, kLittle));
  EXPECT_FALSE(said(Precision::kBf16, kMuch, kLittle));
  EXPECT_FALSE(said(Precision::kFp64, kMuch, kLittle));
  EXPECT_FALSE(said(Precision::kFp32, kLittle, 1'000'000'000));
}

}  // namespace
}  // namespace profgpu
