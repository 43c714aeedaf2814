#include "analyse/work/op_work_test.h"

namespace profgpu {
namespace {

constexpr std::string_view kTwoFloats = R"(["float", "float"])";

// A byte with two numbers is an element to the counter.
TEST(Products, OfFp4ComputeTwiceWhatTheCounterSays) {
  const OpWork w = work_of("aten::_scaled_mm", "[[64, 128], [128, 32], [1], [1], [], [], []]",
                           R"(["c10::Float4_e2m1fn_x2", "c10::Float4_e2m1fn_x2", "float", "float", "", "", ""])");
  EXPECT_EQ(w.flops, 2 * 64 * 128 * 32);
  EXPECT_EQ(w.needed_flops(), 2 * w.flops);
}

// Rows by their experts' weights, of which at least one expert's are read; packed weights are unknown.
TEST(Products, OfSortedRowsByExperts) {
  const std::string_view types = R"(["c10::BFloat16", "c10::Float8_e4m3fn", "c10::Float8_e4m3fn"])";
  const OpWork w = work_of("_C::cutlass_moe_mm", "[[64, 32], [64, 16], [8, 16, 32]]", types);
  EXPECT_EQ(w.flops, 2 * 64 * 16 * 32);
  EXPECT_EQ(w.bytes, 2 * 64 * 32 + 64 * 16 + 8 * 16 * 32);   // 64 rows reach all eight experts
  EXPECT_EQ(work_of("_C::cutlass_moe_mm", "[[64, 32], [64, 16], [8, 8, 32]]", types), OpWork());
  // Weights are no inputs of the layer as one operator.
  ASSERT_NE(find_family("vllm::moe_forward"), nullptr);
  EXPECT_EQ(work_of("vllm::moe_forward", "[[64, 16], [64, 8], []]", types), OpWork());
}

TEST(Products, OfIntegersAreOfFourBytes) {
  const OpWork w = work_of("aten::_int_mm", "[[32, 64], [64, 16]]", R"(["signed char", "signed char"])");
  EXPECT_EQ(w.flops, 2 * 32 * 64 * 16);
  EXPECT_EQ(w.bytes, 32 * 64 + 64 * 16 + 4 * 32 * 16);
  EXPECT_EQ(w.precision, Precision::kInt8);
}

// vLLM's, SGLang's, TensorRT-LLM's and bitsandbytes' products of packed weights: 8 tokens, 64 by 32.
TEST(Products, OfQuantizedWeights) {
  constexpr int64_t kFlops = 2 * 8 * 64 * 32;
  const std::string_view half = R"(["c10::Half", "int", "c10::Half", "int", "Scalar"])";
  const OpWork awq = work_of("_C::awq_gemm", "[[8, 64], [64, 4], [1, 32], [1, 4], []]", half);
  EXPECT_EQ(awq.flops, kFlops);
  EXPECT_EQ(awq.bytes, 2 * 8 * 64 + 4 * 64 * 4 + 2 * 32 + 4 * 4 + 2 * 8 * 32);
  EXPECT_EQ(awq.precision, Precision::kFp16);
  const OpWork gptq = work_of("_C::gptq_gemm", "[[8, 64], [8, 32], [1, 4], [1, 32], [64], [], []]",
                              R"(["c10::Half", "int", "int", "c10::Half", "int", "Scalar", "Scalar"])");
  EXPECT_EQ(gptq.flops, kFlops);
  EXPECT_EQ(work_of("_C::machete_mm", "[[8, 64], [8, 32], []]", half).flops, kFlops);
  EXPECT_EQ(work_of("_C::awq_gemm", "[[8, 64], [63, 4], [1, 32], [1, 4], []]", half), OpWork());
  EXPECT_EQ(work_of("_C::awq_gemm", "[[8, 64], [64, 9000000000000000000], [1, 32], [1, 4], []]", half), OpWork());
  const OpWork fp4 = work_of("_C::cutlass_scaled_fp4_mm", "[[8, 32], [8, 32], [32, 32], [128, 4], [128, 4], [1]]",
                             R"(["c10::BFloat16", "unsigned char", "unsigned char", "c10::Float8_e4m3fn",
                                 "c10::Float8_e4m3fn", "float"])");
  EXPECT_EQ(fp4.flops, kFlops);
  EXPECT_EQ(fp4.needed_flops(), kFlops);
  EXPECT_EQ(fp4.precision, Precision::kFp4);
  EXPECT_EQ(fp4.bytes, 8 * 32 + 32 * 32 + 2 * 128 * 4 + 4 + 2 * 8 * 32);
  const OpWork block = work_of("vllm::apply_w8a8_block_fp8_linear", "[[8, 64], [32, 64], [], [1, 1]]",
                               R"(["c10::BFloat16", "c10::Float8_e4m3fn", "", "float"])");
  EXPECT_EQ(block.flops, kFlops);
  EXPECT_EQ(block.precision, Precision::kFp8);
  EXPECT_EQ(work_of("vllm::w8a8_triton_block_scaled_mm_func", "[[8, 64], [32, 64], [8, 1], [1, 1]]",
                    R"(["c10::Float8_e4m3fn", "c10::Float8_e4m3fn", "float", "float"])")
                .flops,
            kFlops);
  EXPECT_EQ(work_of("sglang::deep_gemm_fp8_fp8_bf16_nt", "[[8, 64], [8, 1], [32, 64], [1, 1], [8, 32]]",
                    R"(["c10::Float8_e4m3fn", "float", "c10::Float8_e4m3fn", "float", "c10::BFloat16"])")
                .bytes,
            8 * 64 + 4 * 8 + 32 * 64 + 4 + 2 * 8 * 32);
  EXPECT_EQ(work_of("bitsandbytes::gemv_4bit", "[[1, 64], [1024, 1], [], [32], [16], []]",
                    R"(["c10::BFloat16", "unsigned char", "", "float", "float", "Scalar"])",
                    R"(["", "", "[32, 64]", "", "", "64"])")
                .flops,
            kFlops / 8);
}

// Its versions differ in the inputs before the sizes.
TEST(Products, OfMarlinFindTheirSizes) {
  const auto marlin = [](std::string_view shapes, std::string_view values) {
    return work_of("_C::gptq_marlin_gemm", shapes,
                   R"(["c10::BFloat16", "int", "c10::BFloat16", "", "", "int", "Scalar", "Scalar", "Scalar", "Scalar"])",
                   values);
  };
  const OpWork w = marlin("[[8, 64], [4, 64], [1, 32], [], [], [9], [], [], [], []]",
                          R"(["", "", "", "", "", "", "1125899906843648", "8", "32", "64"])");
  EXPECT_EQ(w.flops, 2 * 8 * 64 * 32);
  EXPECT_EQ(w.bytes, 2 * 8 * 64 + 4 * 4 * 64 + 2 * 32 + 4 * 9 + 2 * 8 * 32);
  EXPECT_EQ(marlin("[[8, 64], [4, 64], [1, 32], [], [], [9], [], [], [], []]", ""), OpWork());
}

// Six rows by two of four experts each: (a, result, weights, scales, ..., block, choices, flag, type, m, n, k).
TEST(Products, OfMarlinsExperts) {
  const OpWork w = work_of("_moe_C::moe_wna16_marlin_gemm", "[[6, 64], [], [4, 4, 64], [4, 1, 32], [], [], [], [], [], [], []]",
                           R"(["c10::BFloat16", "", "int", "c10::BFloat16", "Scalar", "Scalar", "Scalar", "Scalar",
                               "Scalar", "Scalar", "Scalar"])",
                           R"(["", "", "", "", "16", "2", "True", "77", "6", "32", "64"])");
  EXPECT_EQ(w.flops, 2 * 6 * 2 * 64 * 32);
  EXPECT_EQ(w.bytes, 2 * 6 * 64 + 2 * 12 * 32 + 4 * (4 * 4 * 64 + 2 * 32));   // they reach all four
}

TEST(Products, OfTransformerEngine) {
  std::string shapes = "[[32, 64], [1], [], [], [], [8, 64], [1], [], [], [], [8, 32]]";
  const OpWork gemm = work_of("tex_ts::te_gemm_ts", shapes,
                              R"(["unsigned char", "float", "", "", "", "unsigned char", "float", "", "", "", "c10::BFloat16"])");
  EXPECT_EQ(gemm.flops, 2 * 8 * 64 * 32);
  EXPECT_EQ(gemm.precision, Precision::kFp8);
  EXPECT_EQ(gemm.bytes, 32 * 64 + 8 * 64 + 2 * 8 * 32);
  const std::string_view types = R"(["c10::BFloat16", "c10::BFloat16", "", "c10::BFloat16"])";
  const OpWork linear = work_of("_Linear", "[[32, 64], [2, 4, 64], [], []]", types);
  EXPECT_EQ(linear.flops, 2 * 8 * 64 * 32);
  EXPECT_EQ(linear.precision, Precision::kUnknown);   // the recipe's
  EXPECT_TRUE(linear.lower_bound);                    // ranks may gather the input
  EXPECT_EQ(work_of("_LayerNormLinear", "[[2, 4, 64], [64], [], [32, 64]]", types).flops, linear.flops);
}

TEST(Products, ByTemplatesAreKnownIfOnlyOneFits) {
  const std::string_view types = R"(["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "c10::BFloat16"])";
  const OpWork w = work_of("triton_tem_fused_addmm_relu_0", "[[32], [8, 64], [32, 64], [8, 32]]", types);
  EXPECT_EQ(w.flops, 2 * 8 * 64 * 32);
  EXPECT_EQ(w.bytes, 2 * (32 + 8 * 64 + 32 * 64 + 8 * 32));
  EXPECT_EQ(w.precision, Precision::kBf16);
  EXPECT_EQ(w.product, (ProductSizes{1, 8, 32, 64}));
  const OpWork batch = work_of("triton_tem_fused_bmm_0", "[[4, 8, 64], [4, 64, 32], [4, 8, 32]]", types);
  EXPECT_EQ(batch.flops, 4 * 2 * 8 * 64 * 32);
  const OpWork attention = work_of("triton_tem_fused_flex_attention_0", "[[1, 4, 8, 64], [1, 4, 8, 64], [1, 4, 8, 64]]", types);
  EXPECT_EQ(attention.flops, -1);
  EXPECT_EQ(attention.bytes, 3 * 2 * 4 * 8 * 64);
  // A second weight of another inner size.
  EXPECT_EQ(work_of("triton_tem_fused_mm_0", "[[8, 64], [64, 32], [8, 16], [16, 32], [8, 32]]",
                    R"(["float", "float", "float", "float", "float"])")
                .flops,
            -1);
}

TEST(Products, Matrices) {
  // 2 · 2 · 3 · 4; (6 + 12 + 8) elements of four bytes.
  const OpWork mm = work_of("aten::mm", "[[2, 3], [3, 4]]", kTwoFloats);
  EXPECT_EQ(mm.flops, 48);
  EXPECT_EQ(mm.bytes, 104);
  EXPECT_EQ(mm.precision, Precision::kFp32);
  EXPECT_EQ(mm.needed_flops(), 48);
  EXPECT_FALSE(mm.lower_bound);
  // The bias is read too.
  const OpWork addmm =
      work_of("aten::addmm", "[[4], [2, 3], [3, 4], [], []]", R"(["float", "float", "float", "Scalar", "Scalar"])");
  EXPECT_EQ(addmm.flops, 48);
  EXPECT_EQ(addmm.bytes, 120);
  EXPECT_EQ(work_of("aten::mm", "[[2, 3], [4, 4]]", kTwoFloats).flops, -1);
  EXPECT_EQ(work_of("aten::mm", "[[2, 3]]", kTwoFloats).flops, -1);
}

TEST(Products, Batches) {
  EXPECT_EQ(work_of("aten::bmm", "[[5, 2, 3], [5, 3, 4]]", kTwoFloats).flops, 240);
  EXPECT_EQ(work_of("aten::bmm", "[[5, 2, 3], [6, 3, 4]]", kTwoFloats).flops, -1);
  const std::string_view three = R"(["c10::Half", "c10::Half", "c10::Half"])";
  EXPECT_EQ(work_of("aten::baddbmm", "[[5, 2, 4], [5, 2, 3], [5, 3, 4]]", three).flops, 240);
  const OpWork added = work_of("aten::addbmm", "[[2, 4], [5, 2, 3], [5, 3, 4]]", three);
  EXPECT_EQ(added.flops, 240);
  EXPECT_EQ(added.bytes, 2 * (8 + 30 + 60 + 8));
}

TEST(Products, OuterForms) {
  EXPECT_EQ(work_of("aten::linear", "[[7, 2, 3], [4, 3], [4]]", R"(["float", "float", "float"])").flops, 2 * 14 * 12);
  EXPECT_EQ(work_of("aten::matmul", "[[7, 1, 2, 3], [5, 3, 4]]", kTwoFloats).flops, 2 * 35 * 24);
  EXPECT_EQ(work_of("aten::matmul", "[[3], [3, 4]]", kTwoFloats).flops, 24);
  EXPECT_EQ(work_of("aten::mv", "[[2, 3], [3]]", kTwoFloats).flops, 12);
  EXPECT_EQ(work_of("aten::dot", "[[5], [5]]", kTwoFloats).flops, 10);
}

TEST(Products, Scaled) {
  // FP8 by FP8 to BF16 (ScalarType 15), a scale each.
  const OpWork w = work_of("aten::_scaled_mm", "[[16, 32], [32, 64], [], [], [], [], [], []]",
                           R"(["c10::Float8_e4m3fn", "c10::Float8_e4m3fn", "float", "float", "", "", "Scalar", "Scalar"])",
                           R"(["", "", "", "", "", "", "15", "False"])");
  EXPECT_EQ(w.flops, 2 * 16 * 32 * 64);
  EXPECT_EQ(w.bytes, 16 * 32 + 32 * 64 + 8 + 2 * 16 * 64);
  EXPECT_EQ(w.precision, Precision::kFp8);
}

TEST(Products, Grouped) {
  // 64 rows in four groups, each with a matrix of its own.
  const std::string_view types = R"(["c10::BFloat16", "c10::BFloat16", "int"])";
  const OpWork rows = work_of("aten::_grouped_mm", "[[64, 32], [4, 32, 16], [4]]", types);
  EXPECT_EQ(rows.flops, 2 * 64 * 32 * 16);
  EXPECT_EQ(rows.bytes, 2 * (64 * 32 + 4 * 32 * 16 + 64 * 16));
  // What is added up over is cut into four: four results.
  const OpWork inner = work_of("aten::_grouped_mm", "[[32, 64], [64, 16], [4]]", types);
  EXPECT_EQ(inner.flops, 2 * 64 * 32 * 16);
  EXPECT_EQ(inner.bytes, 2 * (64 * 32 + 64 * 16 + 4 * 32 * 16));
}

TEST(Products, Engines) {
  const OpWork aiter = work_of("aiter::gemm_a16w16", "[[32, 128], [64, 128], [], []]",
                               R"(["c10::BFloat16", "c10::BFloat16", "", "Scalar"])", R"(["", "", "", "15"])");
  EXPECT_EQ(aiter.flops, 2 * 32 * 128 * 64);
  EXPECT_EQ(aiter.bytes, 2 * (32 * 128 + 64 * 128 + 32 * 64));
  EXPECT_EQ(work_of("_C::cutlass_scaled_mm", "[[8, 4], [8, 16], [16, 4], [8], [4]]",
                    R"(["c10::BFloat16", "c10::Float8_e4m3fn", "c10::Float8_e4m3fn", "float", "float"])")
                .flops,
            2 * 8 * 16 * 4);
}

TEST(Products, Experts) {
  // Three tokens, two of four experts each; 2 · 8 · 5 weights up and 5 · 8 down.
  const OpWork w = work_of("vllm::inplace_fused_experts", "[[3, 5], [4, 16, 5], [4, 5, 8], [3, 2], [3, 2]]",
                           R"(["c10::Half", "c10::Half", "c10::Half", "float", "int"])");
  EXPECT_EQ(w.flops, 2 * 3 * 2 * (80 + 40));
  // Three tokens with two choices each probably reach all four experts.
  EXPECT_EQ(w.bytes, 2 * 2 * 15 + 2 * 4 * 120 + 4 * 6);
}

TEST(Products, RecurrentLayers) {
  // Seven steps of two sequences of five numbers, four gates of three.
  const OpWork w = work_of("aten::_cudnn_rnn", "[[7, 2, 5], [[12, 5], [12, 3], [12], [12]]]", R"(["float", "TensorList"])");
  EXPECT_EQ(w.flops, 2 * 14 * (60 + 36));
  EXPECT_EQ(w.bytes, -1);   // of what type a list is, only its kernels tell
  EXPECT_EQ(work_of("aten::mkldnn_rnn_layer", "[[7, 2, 5], [12, 5], [12, 3]]", R"(["float", "float", "float"])").flops,
            2 * 14 * (60 + 36));
}

TEST(Products, OfAiterWithScalesOfBlocks) {
  const OpWork w = work_of("aiter::gemm_a8w8_blockscale", "[[64, 7168], [2112, 7168], [64, 56], [17, 56], []]",
                           R"(["c10::Float8_e4m3fnuz", "c10::Float8_e4m3fnuz", "float", "float", "Scalar"])");
  EXPECT_EQ(w.flops, int64_t{2} * 64 * 7168 * 2112);
  EXPECT_EQ(w.precision, Precision::kFp8);
}

TEST(Experts, OfAiterInOneKernel) {
  const std::string_view shapes = "[[64, 7168], [64, 7168], [256, 512, 7168], [256, 7168, 256], [1], [1], [1], [1], []]";
  const std::string_view types = R"(["c10::BFloat16", "c10::Float8_e4m3fnuz", "c10::Float8_e4m3fnuz",
                                     "c10::Float8_e4m3fnuz", "int", "float", "int", "int", "Scalar"])";
  const OpWork w = work_of("aiter::fmoe_fp8_blockscale_g1u1", shapes, types, R"(["", "", "", "", "", "", "", "", "8"])");
  EXPECT_EQ(w.flops, int64_t{2} * 64 * 8 * (512 * 7168 + 7168 * 256));
  EXPECT_EQ(w.precision, Precision::kFp8);
  // How many experts a token has is a value.
  EXPECT_EQ(work_of("aiter::fmoe_fp8_blockscale_g1u1", shapes, types).flops, -1);
}

}  // namespace
}  // namespace profgpu
