// Rules of limits on traces by hand: what they name, what it costs at most, and where they are silent.
#include <gtest/gtest.h>

#include "analyse/rank/roofline.h"
#include "analyse/rules/measure.h"
#include "tests/support/diagnosed.h"
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
std::vector<Finding> findings_of(HandTrace& hand, const OpWork& work, int32_t blocks = 0,
                                 const DeviceProperties& device = h100()) {
  Trace trace = hand.build();
  for (ActivityArgs& args : trace.activity_args)
    if (blocks > 0) args.grid[0] = blocks, args.grid[1] = args.grid[2] = 1;
  const WorkedTrace t(std::move(trace), std::vector<OpWork>(kSteps, work), {}, device);
  return diagnosed(t.facts).findings;
}

constexpr const char* kGemm = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_cublas";

TEST(SlowProducts, CostAtMostWhatReachingNineTenthsOfTheLimitSaves) {
  HandTrace hand = steps_with("aten::mm", kGemm, 900);   // needs 100 us
  const std::vector<Finding> findings = findings_of(hand, kHundred);
  const Finding* f = finding(findings, "slow-products");
  ASSERT_NE(f, nullptr);
  EXPECT_NEAR(*f->value, 90, 0.1);
  ASSERT_TRUE(f->cost_ns);
  const double most_ns = kSteps * (900'000 - 100'000 / 0.9);
  EXPECT_LE(static_cast<double>(*f->cost_ns), most_ns + 1);
  EXPECT_GT(static_cast<double>(*f->cost_ns), 0.8 * most_ns);
  EXPECT_NE(f->evidence.at(0).find("aten::mm [[4096, 2048], [2048, 4096]]: at 11 % of its limit, 110 of 989 TFLOP/s"),
            std::string::npos)
      << f->evidence.at(0);
  EXPECT_EQ(finding(findings, "memory-bound"), nullptr);
}

// What a step does after its last launch, nothing in the trace shows: it waits, or works as long as before.
TEST(SlowProducts, CostIsUnknownIfTheTraceHasNoWaits) {
  HandTrace hand;
  for (int64_t t = 0; t < kSteps * 1000; t += 1000)
    hand.range("ProfilerStep#" + std::to_string(t / 1000), t, t + 1000)
        .shaped_op("aten::mm", t + 10, t + 20, "[[4096, 2048], [2048, 4096]]", "[\"c10::BFloat16\", \"c10::BFloat16\"]")
        .kernel(kGemm, t + 11, t + 12, t + 30, t + 930);
  const std::vector<Finding> findings = findings_of(hand, kHundred);
  const Finding* f = finding(findings, "slow-products");
  ASSERT_NE(f, nullptr);
  EXPECT_FALSE(f->cost_ns);
  EXPECT_EQ(f->why.find("saves nothing"), std::string::npos) << f->why;
  const auto gives_reason = [](const std::string& e) {
    return e.ends_with("at most: the trace doesn't show when the host waits for the device");
  };
  EXPECT_TRUE(std::ranges::any_of(f->evidence, gives_reason)) << f->evidence.back();
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
    const Finding* f = finding(findings, "slow-products");
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
  const Finding* f = finding(findings, "slow-products");
  ASSERT_NE(f, nullptr);
  EXPECT_TRUE(f->evidence.at(0).ends_with("only 2 tiles of 128 x 128")) << f->evidence.at(0);
  EXPECT_NE(f->fix.at(0).find("split-K"), std::string::npos) << f->fix.at(0);
}

// On an MI300X; what it says first, with the first fix.
std::pair<std::string, std::string> reason_on_mi300x(const OpWork& work, const char* op, const char* kernel,
                                                     int64_t busy_us = 900, int32_t blocks = 0) {
  HandTrace hand = steps_with(op, kernel, busy_us);
  const std::vector<Finding> findings = findings_of(hand, work, blocks, mi300x());
  const Finding* f = finding(findings, "slow-products");
  if (f == nullptr) f = finding(findings, "memory-bound");
  return f == nullptr ? std::pair<std::string, std::string>() : std::pair(f->evidence.at(0), f->fix.at(0));
}

constexpr const char* kTensile = "Cijk_Alik_Bljk_BBS_BH_MT256x128x64_MI16x16x1_SN_GSU2_GSUAMB_ISA942";

OpWork bf16_of(double tflops, int64_t busy_us) {
  return {.flops = static_cast<int64_t>(tflops * 1e6) * busy_us, .bytes = 1000, .precision = Precision::kBf16};
}

// AMD says that no product reaches the data sheet's 1307 TFLOP/s.
TEST(SlowProducts, GoByWhatProductsAchieve) {
  OpWork good = bf16_of(620, 900), slow = bf16_of(177, 900);
  good.product = slow.product = {1, 8192, 8192, 8192};
  EXPECT_EQ(reason_on_mi300x(good, "aten::mm", kTensile).first, "");
  const std::string said = reason_on_mi300x(slow, "aten::mm", kTensile).first;
  EXPECT_NE(said.find("at 14 % of its limit, 177 of 1,307 TFLOP/s (25 % of the 708 that AMD measures at most)"),
            std::string::npos)
      << said;
  HandTrace hand = steps_with("aten::mm", kTensile, 900);
  const std::vector<Finding> findings = findings_of(hand, slow, 0, mi300x());
  const Finding* f = finding(findings, "slow-products");
  ASSERT_NE(f, nullptr);
  EXPECT_TRUE(f->what.starts_with("GEMMs at less than half of the rate that AMD measures at most take")) << f->what;
  const double most_ns = kSteps * 900'000 * (1 - 0.25 / 0.9);
  EXPECT_LE(static_cast<double>(*f->cost_ns), 1.01 * most_ns);
  EXPECT_GT(static_cast<double>(*f->cost_ns), 0.8 * most_ns);
}

TEST(SlowProducts, OfFewTilesNameThoseOfTheKernel) {
  OpWork work = bf16_of(32, 900);
  work.product = {1, 256, 512, 131072};
  const auto [said, fix] = reason_on_mi300x(work, "aten::mm", kTensile);
  EXPECT_TRUE(said.ends_with("only 4 tiles of 256 x 128, in 2 parts each")) << said;
  EXPECT_TRUE(fix.starts_with("kernels that split the inner size (split-K, stream-K): PYTORCH_TUNABLEOP_ENABLED=1")) << fix;
  EXPECT_TRUE(reason_on_mi300x(work, "aten::mm", kTensile, 900, 8).first.ends_with("8 workgroups for 304 compute units"));
  work.product = {1, 2048, 4096, 2048};   // 16 x 16 tiles, each in 2 parts
  EXPECT_EQ(reason_on_mi300x(work, "aten::mm", kTensile).first.find("tiles"), std::string::npos);
}

// 131,072 rows by a weight of 32 x 32: the batch is the long side.
TEST(SlowProducts, OfNarrowWeightsAreNotMadeFasterByLargerBatches) {
  OpWork work = bf16_of(32, 900);
  work.product = {1, 131072, 32, 1024};
  const auto [said, fix] = reason_on_mi300x(work, "aten::mm", kTensile);
  EXPECT_TRUE(said.ends_with("skinny: one side is 32, and 88 % of the kernel's tiles is padding")) << said;
  EXPECT_TRUE(fix.starts_with("join GEMMs that read the same input")) << fix;
  work.product = {1, 32, 4096, 1024};
  EXPECT_TRUE(reason_on_mi300x(work, "aten::mm", kTensile).second.starts_with("larger batches"));
}

TEST(SlowProducts, OfConvolutionsNameWhatIsSpecialInTheirSizes) {
  constexpr const char* kKernel = "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x64x32_wt32x32x8_ws1x1";
  const auto said = [&](const ConvolutionSizes& sizes, Precision precision = Precision::kBf16, int64_t busy_us = 900) {
    OpWork work = bf16_of(20, 900);
    work.convolution = sizes, work.precision = precision;
    const std::string text = reason_on_mi300x(work, "aten::miopen_convolution", kKernel, busy_us).first;
    return text.substr(std::min(text.rfind("; ") + 2, text.size()));
  };
  EXPECT_EQ(said({.channels = 256, .points = 32768, .dilation = 16}),
            "dilation 16: its filter reads points that far apart");
  EXPECT_EQ(said({.channels = 1, .groups = 256, .points = 32768}), "depthwise: each weight is used for one channel");
  EXPECT_EQ(said({.channels = 3, .points = 32768}), "only 3 input channels");
  EXPECT_EQ(said({.channels = 2048, .points = 64}),
            "only 64 points in the result: less than a tile, while all weights are read");
  EXPECT_EQ(said({.channels = 512, .points = 1024, .transposed = true}),
            "transposed: it runs on the kernels of an input's gradient");
  // At 12 % of FP32's limit; at 40 % it is the precision.
  EXPECT_TRUE(said({.channels = 3, .points = 32768}, Precision::kFp32).starts_with("only 3 input channels"));
}

TEST(SlowProducts, OfMiopensNaiveKernelSaySo) {
  OpWork work = bf16_of(3, 900);
  work.convolution = {.channels = 256, .points = 32768, .dilation = 16};
  const auto [said, fix] =
      reason_on_mi300x(work, "aten::miopen_convolution", "naive_conv_ab_nonpacked_fwd_nchw_half_double_half");
  EXPECT_TRUE(said.ends_with("MIOpen's naive kernel: it found no tuned one")) << said;
  EXPECT_TRUE(fix.starts_with("MIOPEN_FIND_MODE=1")) << fix;
}

TEST(SlowProducts, OfAttentionNameLargeHeadsAndShortSequences) {
  OpWork work = bf16_of(43, 900);
  work.attention = {.head_size = 256, .queries = 2048, .keys = 2048};
  EXPECT_NE(reason_on_mi300x(work, "aten::_scaled_dot_product_flash_attention", "attn_fwd.kd").first.find("head size 256"),
            std::string::npos);
  work.attention = {.head_size = 128, .queries = 16, .keys = 16};
  EXPECT_NE(reason_on_mi300x(work, "aten::_scaled_dot_product_flash_attention", "attn_fwd.kd").first.find("only 16 queries"),
            std::string::npos);
}

TEST(MemoryBound, OfProductsOfFewBlocksSaysWhatIsIdle) {
  HandTrace hand = steps_with("aten::mm", kTensile, 900);
  OpWork work = kBytes;
  work.flops = 1'000'000'000, work.product = {1, 256, 512, 131072};
  const std::vector<Finding> findings = findings_of(hand, work, 8, mi300x());
  const Finding* f = finding(findings, "memory-bound");
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->verdict, "GEMMs that keep 8 of 304 compute units busy take 90 % of the time.");
}

TEST(MemoryBound, NamesInputsThatLieInDifferentOrders) {
  const auto said = [](const char* strides) {
    HandTrace hand;
    for (int64_t t = 0; t < kSteps * 1000; t += 1000)
      hand.range("ProfilerStep#" + std::to_string(t / 1000), t, t + 1000)
          .shaped_op("aten::add", t + 10, t + 20, "[[8192, 8192], [8192, 8192], []]", "[\"float\", \"float\", \"Scalar\"]",
                     strides)
          .kernel("elementwise_kernel_add", t + 11, t + 12, t + 30, t + 930)
          .call("cudaDeviceSynchronize", t + 22, t + 932);
    const std::vector<Finding> findings = findings_of(hand, kBytes);
    const Finding* f = finding(findings, "memory-bound");
    return f == nullptr ? std::pair<std::string, std::string>() : std::pair(f->evidence.at(0), f->fix.at(0));
  };
  const auto [orders, fix] = said("[[8192, 1], [1, 8192], []]");
  EXPECT_TRUE(orders.ends_with("inputs in different orders: strides [8192, 1] and [1, 8192]")) << orders;
  EXPECT_TRUE(fix.starts_with("contiguous inputs")) << fix;
  EXPECT_TRUE(said("[[16384, 2], [8192, 1], []]").first.ends_with("an input is strided: [16384, 2]"));
  // Both transposed: dense. Its neighbors are the same operator, which there is nothing to fuse with.
  const auto [dense, other] = said("[[1, 8192], [1, 8192], []]");
  EXPECT_EQ(dense.find("strides"), std::string::npos) << dense;
  EXPECT_EQ(other.find("fuse"), std::string::npos) << other;
}

// 153 blocks for 304 compute units: with other sizes there are as many.
TEST(MisalignedGemm, CostsNoMoreThanItsGridCanUse) {
  HandTrace hand;
  for (int64_t t = 0; t < kSteps * 1000; t += 1000)
    hand.range("ProfilerStep#" + std::to_string(t / 1000), t, t + 1000)
        .shaped_op("aten::mm", t + 10, t + 20, "[[1025, 8192], [8192, 1025]]", "[\"c10::BFloat16\", \"c10::BFloat16\"]")
        .kernel("Cijk_Ailk_Bljk_BBS_BH_MT128x64x64_MI32x32x8x1_SN", t + 11, t + 12, t + 30, t + 930)
        .call("cudaDeviceSynchronize", t + 22, t + 932);
  OpWork work = bf16_of(161, 900);
  work.product = {1, 1025, 1025, 8192};
  const std::vector<Finding> findings = findings_of(hand, work, 153, mi300x());
  const Finding* f = finding(findings, "misaligned-gemm");
  ASSERT_NE(f, nullptr);
  const double most_ns = kSteps * 900'000 * (1 - 161 / (708 * 0.9 * 153 / 304));
  EXPECT_LE(static_cast<double>(*f->cost_ns), 1.01 * most_ns);
  EXPECT_NE(f->evidence.at(0).find(": at 12 % of its limit, 161 of 1,307 TFLOP/s (23 % of the 708 that AMD measures at "
                                   "most); with padded sizes"),
            std::string::npos)
      << f->evidence.at(0);
  EXPECT_TRUE(f->evidence.at(0).ends_with("16 % of its tiles is padding")) << f->evidence.at(0);
  EXPECT_EQ(f->fix.at(0).find("vocabulary"), std::string::npos) << f->fix.at(0);
}

// AMD's matrix instructions multiply float32 at the rate of its other units.
TEST(FullPrecisionGemm, IsOfFloat32OnAmdWhateverTheInstruction) {
  HandTrace hand = steps_with("aten::mm", "Cijk_Alik_Bljk_S_B_Bias_HA_S_SAV_UserArgs_MT128x128x32_MI16x16x1_SN", 900);
  OpWork work = bf16_of(110, 900);
  work.precision = Precision::kFp32;
  const std::vector<Finding> findings = findings_of(hand, work, 0, mi300x());
  const Finding* f = finding(findings, "full-precision-gemm");
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->what, "100 % of matrix and convolution time runs in float32");
  EXPECT_EQ(f->why, "AMD Instinct MI300X multiplies 163 TFLOP/s at most in float32, 1,307 in bf16.");
  // Far below the limit of FP32 it has other reasons, too.
  work.flops /= 20;
  HandTrace slow = steps_with("aten::mm", "Cijk_Alik_Bljk_S_B_Bias_HA_S_SAV_UserArgs_MT128x128x32_MI16x16x1_SN", 900);
  EXPECT_NE(finding(findings_of(slow, work, 0, mi300x()), "slow-products"), nullptr);
}

TEST(FullPrecisionGemm, IsNotOfDepthwiseConvolutions) {
  HandTrace hand = steps_with("aten::thing", "depthwise_conv2d_fwd_fp32_kernel", 900);
  EXPECT_EQ(finding(findings_of(hand, OpWork()), "full-precision-gemm"), nullptr);
}

TEST(MisalignedGemm, IsLeftToItsRuleWithACost) {
  HandTrace hand;
  for (int64_t t = 0; t < kSteps * 1000; t += 1000)
    hand.range("ProfilerStep#" + std::to_string(t / 1000), t, t + 1000)
        .shaped_op("aten::mm", t + 10, t + 20, "[[4096, 2049], [2049, 4096]]", "[\"c10::BFloat16\", \"c10::BFloat16\"]")
        .kernel(kGemm, t + 11, t + 12, t + 30, t + 930)
        .call("cudaDeviceSynchronize", t + 22, t + 932);
  const std::vector<Finding> findings = findings_of(hand, kHundred);
  EXPECT_EQ(finding(findings, "slow-products"), nullptr);
  const Finding* f = finding(findings, "misaligned-gemm");
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
    const Finding* f = finding(findings, "fusable-elementwise");
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
  EXPECT_EQ(finding(findings_of(half, kHundred), "slow-products"), nullptr);
  EXPECT_NE(finding(findings_of(below, kHundred), "slow-products"), nullptr);
}

// Another finding has this time already.
TEST(SlowProducts, AreSilentWhereTensorCoresAreMissing) {
  HandTrace hand = steps_with("aten::mm", "ampere_sgemm_128x64_tn", 900);
  OpWork work = kHundred;
  work.precision = Precision::kFp32, work.flops = 4 * 6'700'000'000;   // 400 us without tensor cores
  const std::vector<Finding> findings = findings_of(hand, work);
  EXPECT_NE(finding(findings, "full-precision-gemm"), nullptr);
  EXPECT_EQ(finding(findings, "slow-products"), nullptr);
}

TEST(MemoryBound, NamesKernelsBelowHalfOfTheMemorysRate) {
  HandTrace slow = steps_with("aten::index_select", "indexSelectLargeIndex", 900);
  HandTrace good = steps_with("aten::index_select", "indexSelectLargeIndex", 150);
  const std::vector<Finding> findings = findings_of(slow, kBytes);
  const Finding* f = finding(findings, "memory-bound");
  ASSERT_NE(f, nullptr);
  EXPECT_NE(f->evidence.at(0).find("at 11 % of its limit, 372 GB/s"), std::string::npos) << f->evidence.at(0);
  EXPECT_EQ(finding(findings, "slow-products"), nullptr);
  EXPECT_EQ(finding(findings_of(good, kBytes), "memory-bound"), nullptr);
}

// An argument that is both read and written counts once in the bytes, so that half of the limit is a quarter there.
TEST(MemoryBound, CompiledKernelsMayMoveTheirArgumentsTwice) {
  const auto found_at = [](std::string_view op, int64_t busy_us) {
    HandTrace hand = steps_with(op, "triton_poi_fused_add_0", busy_us);   // needs 100 us
    const std::vector<Finding> all = findings_of(hand, kBytes);
    return finding(all, "memory-bound") != nullptr;
  };
  EXPECT_TRUE(found_at("aten::index_select", 300));
  EXPECT_FALSE(found_at("triton_poi_fused_add_0", 300));
  EXPECT_TRUE(found_at("triton_poi_fused_add_0", 500));
}

TEST(LowMfu, SaysHowMuchOfThePeakIsUsedAndWhatTheRestIs) {
  HandTrace hand = steps_with("aten::mm", kGemm, 150);   // 10 % of the time at peak
  const std::vector<Finding> findings = findings_of(hand, kHundred);
  const Finding* f = finding(findings, "low-mfu");
  ASSERT_NE(f, nullptr);
  EXPECT_NEAR(*f->value, 10, 0.1);
  EXPECT_EQ(f->severity, Severity::kInfo);
  EXPECT_FALSE(f->cost_ns);
  OpWork more = kHundred;
  more.flops *= 3;
  HandTrace busy = steps_with("aten::mm", kGemm, 400);
  EXPECT_EQ(finding(findings_of(busy, more), "low-mfu"), nullptr);
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
    const std::vector<Finding> all = diagnosed(t.facts).findings;
    const Finding* f = finding(all, "low-mfu");
    return f == nullptr ? std::string() : f->what;
  };
  EXPECT_EQ(found_beside(40), "the run uses at least 10.0 % of the GPU's peak FLOP rate (MFU)");   // 5 % of the time
  EXPECT_EQ(found_beside(120), "");   // 13 %
}

// Names tell tensor cores where they are known. Of others the data's type does, and what memory limits needs none.
TEST(FullPrecisionGemm, IsOfFp32ThatComputingLimits) {
  const auto said = [](Precision precision, int64_t flops, int64_t bytes) {
    HandTrace hand = steps_with("aten::mm", "my_gemm_kernel", 900);
    return finding(findings_of(hand, {.flops = flops, .bytes = bytes, .precision = precision}), "full-precision-gemm") !=
           nullptr;
  };
  constexpr int64_t kMuch = 20'000'000'000, kLittle = 1000;
  EXPECT_TRUE(said(Precision::kFp32, kMuch, kLittle));
  EXPECT_FALSE(said(Precision::kBf16, kMuch, kLittle));
  EXPECT_FALSE(said(Precision::kFp64, kMuch, kLittle));
  EXPECT_FALSE(said(Precision::kFp32, kLittle, 1'000'000'000));
}

// Of a device that the table lacks it is not known whether it has such units.
TEST(FullPrecisionGemm, IsSilentWhereTheUnitsAreNotKnown) {
  const auto found_on = [](const DeviceProperties& device) {
    HandTrace hand = steps_with("aten::mm", "ampere_sgemm_128x64_nn", 900);
    return finding(findings_of(hand, OpWork(), 0, device), "full-precision-gemm") != nullptr;
  };
  DeviceProperties small = h100(), old = mi300x(), variant = h100();
  variant.name = "Tesla V100-DGXS-32GB", variant.compute_major = 7, variant.multiprocessors = 80;
  small.name = "NVIDIA T1000 8GB", small.compute_major = 7, small.compute_minor = 5;
  old.name = "AMD Instinct MI50";
  EXPECT_TRUE(found_on(h100()));
  EXPECT_TRUE(found_on(variant));   // all of its family in the table have them
  EXPECT_FALSE(found_on(small));
  EXPECT_FALSE(found_on(old));
}

// 141 rows in tiles of 128: no size of a layer changes them.
TEST(MisalignedGemm, PaddingOfRowsIsNotOfTheVocabulary) {
  HandTrace hand;
  for (int64_t t = 0; t < kSteps * 1000; t += 1000)
    hand.range("ProfilerStep#" + std::to_string(t / 1000), t, t + 1000)
        .shaped_op("aten::mm", t + 10, t + 20, "[[141, 512], [512, 30522]]", "[\"c10::BFloat16\", \"c10::BFloat16\"]")
        .kernel("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn", t + 11, t + 12, t + 30, t + 930)
        .call("cudaDeviceSynchronize", t + 22, t + 932);
  OpWork work = kHundred;
  work.product = {1, 141, 30522, 512};
  const std::vector<Finding> findings = findings_of(hand, work);
  const Finding* f = finding(findings, "misaligned-gemm");
  ASSERT_NE(f, nullptr);
  EXPECT_NE(f->evidence.at(0).find("of its tiles is padding, most of it in its 141 rows"), std::string::npos)
      << f->evidence.at(0);
  EXPECT_NE(f->fix.back().find("141 rows"), std::string::npos) << f->fix.back();
}

}  // namespace
}  // namespace profgpu
