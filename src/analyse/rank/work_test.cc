#include "analyse/rank/work.h"

#include <gtest/gtest.h>

#include "analyse/rank/ops.h"
#include "support/hand_trace.h"

namespace profgpu {
namespace {

constexpr std::string_view kMatrices = "[[2, 3], [3, 4]]", kFloats = R"(["float", "float"])";
constexpr int64_t kFlops = 48;

class WorkTest : public testing::Test {
 protected:
  void run(HandTrace& t) { of_.emplace(t.build(), AnalysisOptions()); }
  const DeviceWork& work() { return of_->facts.get<DeviceWork>(); }
  const WorkRun* run_of(std::string_view kernel) {
    for (uint32_t i = 0; i < of_->trace.activity.size(); ++i)
      if (of_->trace.name(ActivityId(i)) == kernel) return work().run(ActivityId(i));
    return nullptr;
  }
  std::string_view op_of(std::string_view kernel) {
    const WorkRun* const run = run_of(kernel);
    return run == nullptr ? "" : of_->trace.name(run->op);
  }
  std::optional<TraceFacts> of_;
};

TEST_F(WorkTest, BelongsToTheInnermostOperatorThatHasSome) {
  HandTrace t;
  t.shaped_op("aten::linear", 0, 100, "[[2, 3], [4, 3], [4]]", R"(["float", "float", "float"])");
  t.shaped_op("aten::addmm", 10, 90, "[[4], [2, 3], [3, 4]]", R"(["float", "float", "float"])");
  t.shaped_op("aten::copy_", 20, 30, "[[2, 3], [2, 3]]", kFloats).kernel("copy", 22, 24, 100, 110);
  t.op("aten::helper", 40, 50).kernel("zero", 42, 44, 110, 120);
  t.kernel("ampere_sgemm_128x64_tn", 60, 70, 120, 150);
  run(t);
  EXPECT_EQ(op_of("copy"), "aten::copy_");
  EXPECT_EQ(op_of("zero"), "aten::addmm");
  EXPECT_EQ(op_of("ampere_sgemm_128x64_tn"), "aten::addmm");
  ASSERT_EQ(work().runs.size(), 2U);
  EXPECT_EQ(work().runs[1].work->flops, kFlops);
  EXPECT_EQ(work().runs[1].work->precision, Precision::kFp32);
  EXPECT_EQ(work().runs[1].device_ns, 40'000);
  EXPECT_EQ(work().kernel_ns, 50'000);
  EXPECT_EQ(work().flops_known_ns, 50'000);
  // The outer operator's FLOPs are the inner one's.
  for (const OpRow& row : of_->facts.get<Ops>().rows)
    EXPECT_EQ(row.flops, row.text == "aten::addmm"   ? std::optional<int64_t>(kFlops)
                         : row.text == "aten::copy_" ? std::optional<int64_t>(0)
                                                     : std::nullopt)
        << row.text;
}

TEST_F(WorkTest, KernelsNameTf32) {
  HandTrace t;
  t.shaped_op("aten::mm", 0, 100, kMatrices, kFloats).kernel("sm80_xmma_gemm_f32f32_tf32f32_f32_tn", 10, 20, 30, 60);
  t.shaped_op("aten::mm", 200, 300, kMatrices, kFloats);
  t.kernel("cutlass_80_tensorop_s1688gemm_64x64_nn_align4", 210, 220, 230, 260);
  run(t);
  ASSERT_EQ(work().runs.size(), 2U);
  for (const WorkRun& r : work().runs) EXPECT_EQ(r.work->precision, Precision::kTf32);
}

TEST_F(WorkTest, ListsHaveTheTypeThatTheirKernelsName) {
  HandTrace t;
  t.shaped_op("aten::cat", 0, 100, "[[[2, 3], [4, 3]], []]", R"(["TensorList", "Scalar"])");
  t.kernel("CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, 2>", 10, 20, 30, 60);
  t.shaped_op("aten::_foreach_norm", 200, 300, "[[[2, 3], [4, 3]], []]", R"(["TensorList", "Scalar"])");
  t.kernel("multi_tensor_apply_kernel<LpNormFunctor<float, 2>>", 210, 220, 230, 260);
  run(t);
  ASSERT_EQ(work().runs.size(), 2U);
  EXPECT_EQ(work().runs[0].work->bytes, 2 * 2 * 18);
  EXPECT_EQ(work().runs[1].work->bytes, 4 * 18);
}

// Learning rates of fused optimizers are of type double, whatever the parameters' type.
TEST_F(WorkTest, TheFirstTypeInAKernelsNameIsTheElements) {
  constexpr std::string_view kLists = "[[[2, 3]], [[2, 3]], [[2, 3]], [[2, 3]]]";
  constexpr std::string_view kTypes = R"(["TensorList", "TensorList", "TensorList", "TensorList"])";
  const auto bytes = [&](const char* kernel) {
    HandTrace t;
    t.shaped_op("aten::_fused_adamw_", 0, 100, kLists, kTypes).kernel(kernel, 10, 20, 30, 60);
    run(t);
    return work().runs.at(0).work->bytes;
  };
  const int64_t of_float = bytes("multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4, (ADAM_MODE)1>, float const*>");
  EXPECT_EQ(bytes("multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4, (ADAM_MODE)1>, float const*, double, "
                  "double, double, bool>"),
            of_float);
  EXPECT_EQ(bytes("multi_tensor_apply_kernel<FusedAdamMathFunctor<double, 4, (ADAM_MODE)1>, float const*, double>"),
            2 * of_float);
  EXPECT_EQ(bytes("multi_tensor_apply_kernel<FusedAdamMathFunctor<c10::BFloat16, 4, (ADAM_MODE)1>, float const*, double>"),
            of_float / 2);
}

// A100: FP32 reaches 19.5 TFLOP/s, TF32 156. 2.1 GFLOP take 110 us at the former.
TEST_F(WorkTest, ProductsTooFastForFp32AreTf32) {
  const auto precision = [](const char* kernel, int64_t us) {
    HandTrace t;
    t.shaped_op("aten::mm", 0, 100, "[[1024, 1024], [1024, 1024]]", kFloats).kernel(kernel, 10, 20, 100, 100 + us);
    Trace trace = t.build();
    DeviceProperties a100;
    a100.name = "NVIDIA A100-SXM4-40GB", a100.multiprocessors = 108;
    trace.devices.push_back(a100);
    const Facts facts(trace, {});
    return facts.get<DeviceWork>().runs.at(0).work->precision;
  };
  EXPECT_EQ(precision("triton_tem_fused_mm_0", 200), Precision::kFp32);
  EXPECT_EQ(precision("triton_tem_fused_mm_0", 50), Precision::kTf32);
  EXPECT_EQ(precision("triton_tem_fused_mm_0", 5), Precision::kFp32);   // not possible in TF32, either
  EXPECT_EQ(precision("ampere_sgemm_128x64_nn", 50), Precision::kFp32);
}

TEST_F(WorkTest, LowerBoundsAreSaidToBeSome) {
  constexpr std::string_view kShapes =
      "[[64, 8, 64], [64, 8, 64], [64, 8, 64], [3], [3], [], [], [], [], [], [], []]";
  constexpr std::string_view kTypes =
      R"(["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "int", "int", "", "", "", "", "", "", ""])";
  HandTrace t;
  t.shaped_op("flash_attn::_flash_attn_varlen_forward", 0, 100, kShapes, kTypes);
  t.kernel("flash_fwd_kernel", 10, 20, 30, 60);
  t.shaped_op("aten::mm", 200, 300, kMatrices, kFloats).kernel("gemm", 210, 220, 230, 260);
  run(t);
  ASSERT_EQ(work().unknown.size(), 1U);
  EXPECT_EQ(work().unknown[0].name, "flash_attn::_flash_attn_varlen_forward");
  EXPECT_EQ(work().unknown[0].reason, "lengths of sequences not in the trace");
  for (const OpRow& row : of_->facts.get<Ops>().rows)
    EXPECT_EQ(row.flops_is_lower_bound, row.text.starts_with("flash_attn")) << row.text;
  const std::optional<WorkSection> section = WorkSection::compute(of_->facts);
  for (const FamilyWorkRow& row : section->families)
    EXPECT_EQ(row.flops_is_lower_bound, row.family == "attention") << row.family;
}

TEST_F(WorkTest, SaysWhatIsUnknownAndWhy) {
  HandTrace t;
  t.op("aten::mm", 0, 100).kernel("gemm", 10, 20, 30, 60);
  t.shaped_op("custom::op", 200, 300, "[[2, 3]]", "[\"float\"]").kernel("own", 210, 220, 230, 280);
  t.shaped_op("aten::cudnn_convolution", 400, 500, "[[2, 3, 8, 8], [4, 3, 3, 3], [], []]", kFloats);
  t.kernel("conv", 410, 420, 430, 440);
  t.orphan("alone", 500, 505);
  run(t);
  EXPECT_EQ(work().runs.size(), 0U);
  EXPECT_EQ(work().flops_known_ns, 0);
  std::vector<std::pair<std::string, std::string>> rows;
  for (const UnknownWorkRow& r : work().unknown) rows.emplace_back(r.name, r.reason);
  EXPECT_EQ(rows, (std::vector<std::pair<std::string, std::string>>{{"custom::op", "operator not known"},
                                                                   {"aten::mm", "no shapes recorded"},
                                                                   {"aten::cudnn_convolution", "no values recorded"},
                                                                   {"alone", "launched outside any operator"}}));
}

TEST_F(WorkTest, WithoutShapesTheSectionSaysHowToGetThem) {
  HandTrace t;
  t.op("aten::mm", 0, 100).kernel("gemm", 10, 20, 30, 60);
  run(t);
  const std::optional<WorkSection> section = WorkSection::compute(of_->facts);
  ASSERT_TRUE(section);
  EXPECT_FALSE(section->shapes);
  EXPECT_EQ(section->flops_known_pct, 0);
  EXPECT_NE(section->advice.find("record_shapes=True"), std::string::npos);
  HandTrace none;
  none.op("aten::mm", 0, 100);
  run(none);
  EXPECT_FALSE(WorkSection::compute(of_->facts));
}

TEST_F(WorkTest, AttentionOverACacheIsOfTheEnginesStep) {
  constexpr std::string_view kShapes = "[[32, 8, 64], [32, 2, 64], [32, 2, 64], [32, 8, 64], []]";
  constexpr std::string_view kTypes = R"(["c10::Half", "c10::Half", "c10::Half", "c10::Half", ""])";
  HandTrace t;
  t.range("execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk1000sqsq32sqsk1000)", 0, 100);
  t.shaped_op("vllm::unified_attention_with_output", 10, 90, kShapes, kTypes).kernel("attend", 20, 30, 40, 60);
  // Outside a step that says it.
  t.shaped_op("vllm::unified_attention_with_output", 200, 300, kShapes, kTypes).kernel("other", 220, 230, 240, 260);
  run(t);
  ASSERT_EQ(work().runs.size(), 2U);
  EXPECT_EQ(run_of("attend")->work->flops, 4 * 8 * 64 * 1000);
  EXPECT_EQ(run_of("attend")->work->skipped_flops, 0);
  EXPECT_EQ(run_of("attend")->work->bytes, 2 * (2 * 32 * 8 * 64 + 1000 * 4 * 64));
  EXPECT_EQ(run_of("other")->work->flops, -1);
  EXPECT_EQ(work().flops_known_ns, 20'000);
  ASSERT_EQ(work().unknown.size(), 1U);
  EXPECT_EQ(work().unknown[0].reason, "sizes not in the trace");
}

// vLLM's operator calls FlashAttention's over pages, which has the kernel; without pages its own sizes say all.
TEST_F(WorkTest, AttentionOverPagesIsOfTheEnginesStepToo) {
  constexpr std::string_view kTypes = R"(["c10::Half", "c10::Half", "c10::Half", "c10::Half", ""])";
  const auto fa3 = [](std::string_view keys, std::string_view pages) {
    std::string shapes = "[[32, 8, 64], " + std::string(keys) + ", " + std::string(keys) + ", [], [], [], []";
    for (int place = 7; place < 33; ++place) shapes += place == 14 ? ", " + std::string(pages) : ", []";
    return shapes + "]";
  };
  HandTrace t;
  t.range("execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk1000sqsq32sqsk1000)", 0, 200);
  t.shaped_op("vllm::unified_attention_with_output", 10, 90, "[[32, 8, 64], [32, 2, 64], [32, 2, 64], [32, 8, 64], []]",
              kTypes);
  t.shaped_op("_vllm_fa3_C::fwd", 12, 80, fa3("[99, 16, 2, 64]", "[32, 5]"), kTypes).kernel("attend", 20, 30, 40, 60);
  t.shaped_op("_vllm_fa3_C::fwd", 110, 180, "[[1, 32, 8, 64], [1, 32, 8, 64], [1, 32, 8, 64]]", kTypes)
      .kernel("dense", 120, 130, 140, 160);
  run(t);
  ASSERT_EQ(work().runs.size(), 2U);
  EXPECT_EQ(run_of("attend")->work->flops, 4 * 8 * 64 * 1000);
  EXPECT_EQ(run_of("attend")->work->bytes, 2 * (2 * 32 * 8 * 64 + 1000 * 4 * 64));
  EXPECT_EQ(run_of("dense")->work->flops, 4 * 8 * 64 * 32 * 32);
}

TEST_F(WorkTest, FamiliesAddUp) {
  HandTrace t;
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t at = i * 1000;
    t.shaped_op("aten::mm", at, at + 100, kMatrices, kFloats).kernel("gemm", at + 10, at + 20, at + 30, at + 60);
  }
  t.shaped_op("aten::add_", 5000, 5100, "[[8], [8]]", kFloats).kernel("add", 5010, 5020, 5030, 5040);
  run(t);
  const std::optional<WorkSection> section = WorkSection::compute(of_->facts);
  ASSERT_EQ(section->families.size(), 2U);
  EXPECT_EQ(section->families[0].family, "products");
  EXPECT_EQ(section->families[0].calls, 3);
  EXPECT_EQ(section->families[0].flops, 3 * kFlops);
  EXPECT_EQ(section->families[0].device_ns, 90'000);
  EXPECT_EQ(section->families[1].bytes, 96);
  EXPECT_EQ(section->flops_known_pct, 100);
  EXPECT_TRUE(section->advice.empty());
}

// Names of real kernels: the inputs' type counts, not the result's or the accumulator's.
TEST(PrecisionInKernelNames, IsThatOfTheInputs) {
  const std::pair<const char*, Precision> kNames[] = {
      {"sm89_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize64x128x64_stage3_warpsize2x2x1_tensor16x8x32", Precision::kFp8},
      {"cutlass3x_sm90_tensorop_s64x128x32gemm_e4m3_e4m3_f32_bf16_bf16_128x128x128", Precision::kFp8},
      {"nvjet_qqtst_128x256_128x6_2x1_v_bz_TNT", Precision::kFp8},
      {"nvjet_sm100_qqtst_128x256_128x6_2x1_v_bz_TNT", Precision::kFp8},
      {"nvjet_tst_128x256_64x4_2x1_v_bz_TNT", Precision::kBf16},
      {"nvjet_hsh_128x256_64x4_2x1_v_bz_TNT", Precision::kFp16},
      {"Cijk_Alik_Bljk_F8BS_BH_Bias_HAS_SAV_UserArgs_MT256x256x128_MI16x16x1", Precision::kFp8},
      {"Cijk_Alik_Bljk_BBS_BH_MT128x128x32_MI32x32x8x1", Precision::kBf16},
      {"Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT256x128x64_MI16x16x1", Precision::kBf16},
      {"Cijk_Alik_Bljk_HSS_BH_Bias_HAS_SAV_UserArgs_MT256x128x64", Precision::kFp16},
      {"Cijk_Alik_Bljk_S_B_Bias_HA_S_SAV_UserArgs_MT128x128x16_MI16x16x1", Precision::kFp32},
      {"Cijk_Ailk_Bjlk_I8II_BH_MT128x128x64", Precision::kInt8},
      {"Cijk_Ailk_Bljk_S_MX_B_Bias_HA_S_SAV_UserArgs_MT256x128x32_MI16x16x1", Precision::kTf32},
      {"Custom_Cijk_Ailk_Bljk_S_MX_B_Bias_HA_S_SAV_UserArgs_shortname0_gfx942_MT256x256x32", Precision::kTf32},
      {"Custom_Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_shortname1", Precision::kBf16},
      {"nvjet_sss_tf32_128x128_32x6_2x1_v_bz_TNT", Precision::kTf32},
      {"_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1", Precision::kBf16},
      {"cutlass3x_sm100_bstensorop_s256x128x64gemm_block_scaled_ue4m3xe2m1_ue4m3xe2m1_f32_bf16_bf16", Precision::kFp4},
      {"ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn", Precision::kBf16},
      {"ampere_sgemm_128x64_tn", Precision::kFp32},
      {"void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 7168u>", Precision::kFp8},
      {"fused_moe_kernel", Precision::kUnknown}};
  for (const auto& [name, precision] : kNames) EXPECT_EQ(precision_in_kernel_name(name), precision) << name;
}

}  // namespace
}  // namespace profgpu
