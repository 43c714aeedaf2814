#include "analyse/work/op_work_test.h"

namespace profgpu {
namespace {

constexpr std::string_view kThree =
    R"(["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "Scalar", "Scalar", "Scalar", "Scalar"])";

TEST(Attention, Forward) {
  const OpWork w = work_of("aten::_scaled_dot_product_flash_attention",
                           "[[2, 8, 16, 64], [2, 8, 32, 64], [2, 8, 32, 64], [], [], [], []]", kThree,
                           R"(["", "", "", "0.", "False", "False", "0.125"])");
  EXPECT_EQ(w.flops, 2 * 2 * 2 * 8 * 16 * 32 * 64);
  EXPECT_EQ(w.skipped_flops, 0);
  EXPECT_EQ(w.bytes, 2 * 2 * 8 * 64 * (16 + 32 + 32 + 16));
  EXPECT_EQ(w.precision, Precision::kBf16);
}

TEST(Attention, FewerKeyHeadsThanQueryHeads) {
  const OpWork w = work_of("aten::_scaled_dot_product_flash_attention",
                           "[[1, 8, 16, 64], [1, 2, 16, 64], [1, 2, 16, 64], [], [], [], []]", kThree);
  EXPECT_EQ(w.flops, 2 * 2 * 8 * 16 * 16 * 64);
  EXPECT_EQ(w.bytes, 2 * 16 * 64 * (8 + 2 + 2 + 8));
  EXPECT_EQ(work_of("aten::_scaled_dot_product_flash_attention",
                    "[[1, 8, 16, 64], [1, 3, 16, 64], [1, 3, 16, 64]]", kThree).flops, -1);
}

TEST(Attention, ACausalMaskLeavesOutAlmostHalf) {
  const std::string_view causal = R"(["", "", "", "0.", "True", "False", "0.125"])";
  // Of four queries by four keys, six pairs are masked.
  const OpWork square = work_of("aten::_scaled_dot_product_flash_attention",
                                "[[1, 1, 4, 8], [1, 1, 4, 8], [1, 1, 4, 8], [], [], [], []]", kThree, causal);
  EXPECT_EQ(square.flops, 2 * 2 * 16 * 8);
  EXPECT_EQ(square.needed_flops(), 2 * 2 * 10 * 8);
  // Two queries at the end of four keys see three and four of them.
  const OpWork end = work_of("aten::_scaled_dot_product_flash_attention",
                             "[[1, 1, 2, 8], [1, 1, 4, 8], [1, 1, 4, 8], [], [], [], []]", kThree, causal);
  EXPECT_EQ(end.needed_flops(), 2 * 2 * 7 * 8);
  // From the top left they see one and two.
  const OpWork top = work_of("aten::_scaled_dot_product_flash_attention_for_cpu",
                             "[[1, 1, 2, 8], [1, 1, 4, 8], [1, 1, 4, 8], [], []]", kThree, causal);
  EXPECT_EQ(top.needed_flops(), 2 * 2 * 3 * 8);
}

// Every query counted by itself, for short and long keys, with and without a causal mask.
TEST(Attention, ASlidingWindowLeavesOutWhatIsOutsideOfIt) {
  for (const int64_t keys : {3, 5, 9})
    for (const int64_t before : {-1, 0, 2, 20})
      for (const int64_t behind : {-1, 0, 1, 20})
        for (const bool causal : {false, true}) {
          constexpr int64_t kQueries = 5;
          int64_t seen = 0;
          for (int64_t q = 0; q < kQueries; ++q)
            for (int64_t k = 0; k < keys; ++k) {
              const int64_t own = q + keys - kQueries, last = causal ? 0 : behind;
              seen += (before < 0 || k >= own - before) && (last < 0 || k <= own + last);
            }
          const std::string key = "[1, " + std::to_string(keys) + ", 1, 8]";
          const std::string values = std::string(R"(["", "", "", "0.", "1.", ")") + (causal ? "True" : "False") + "\", \"" +
                                     std::to_string(before) + "\", \"" + std::to_string(behind) + "\", \"0.\"]";
          const OpWork w = work_of("flash_attn::_flash_attn_forward",
                                   "[[1, 5, 1, 8], " + key + ", " + key + ", [], [], [], [], [], []]", kThree, values);
          EXPECT_EQ(w.flops, 2 * 2 * kQueries * keys * 8);
          EXPECT_EQ(w.needed_flops(), 2 * 2 * seen * 8) << keys << " keys, window " << before << ", " << behind << causal;
        }
}

TEST(Attention, HeadsMayFollowTheSequence) {
  const OpWork w = work_of("aten::_flash_attention_forward",
                           "[[2, 16, 8, 64], [2, 32, 8, 64], [2, 32, 8, 64], [], [], [], [], [], []]", kThree);
  EXPECT_EQ(w.flops, 2 * 2 * 2 * 8 * 16 * 32 * 64);
  const OpWork fa = work_of("flash_attn::_flash_attn_forward",
                            "[[2, 16, 8, 64], [2, 32, 8, 64], [2, 32, 8, 64]]", kThree);
  EXPECT_EQ(fa.flops, w.flops);
}

TEST(Attention, Backward) {
  const OpWork w = work_of("aten::_scaled_dot_product_efficient_attention_backward",
                           "[[1, 4, 16, 32], [1, 4, 16, 64], [1, 4, 24, 64], [1, 4, 24, 32]]",
                           R"(["float", "float", "float", "float"])");
  // Three products of the key's size, two of the value's.
  EXPECT_EQ(w.flops, 2 * 4 * 16 * 24 * (3 * 64 + 2 * 32));
  EXPECT_EQ(w.bytes, 4 * 2 * 4 * (16 * 64 + 24 * 64 + 24 * 32 + 16 * 32));
}

TEST(Attention, SequencesOneAfterTheOtherHaveALowerBound) {
  const std::string_view types = R"(["c10::Half", "c10::Half", "c10::Half", "int", "int"])";
  const OpWork w =
      work_of("aten::_flash_attention_forward", "[[64, 8, 32], [64, 8, 32], [64, 8, 32], [5], [5]]", types);
  EXPECT_TRUE(w.lower_bound);
  EXPECT_EQ(w.flops, 2 * 2 * 4 * 8 * 16 * 16 * 32);
  // One sequence is exact; queries of several sequences by other keys are unknown.
  const OpWork one =
      work_of("aten::_flash_attention_forward", "[[64, 8, 32], [96, 8, 32], [96, 8, 32], [2], [2]]", types);
  EXPECT_FALSE(one.lower_bound);
  EXPECT_EQ(one.flops, 2 * 2 * 8 * 64 * 96 * 32);
  EXPECT_EQ(work_of("aten::_flash_attention_forward", "[[64, 8, 32], [96, 8, 32], [96, 8, 32], [5], [5]]", types).flops,
            -1);
  // The longest of four is a quarter of all: so are the others.
  const std::string_view more = R"(["c10::Half", "c10::Half", "c10::Half", "int", "int", "Scalar", "Scalar"])";
  const OpWork alike = work_of("aten::_flash_attention_forward", "[[64, 8, 32], [96, 8, 32], [96, 8, 32], [5], [5], [], []]",
                               more, R"(["", "", "", "", "", "16", "24"])");
  EXPECT_FALSE(alike.lower_bound);
  EXPECT_EQ(alike.flops, 2 * 2 * 4 * 8 * 16 * 24 * 32);
  EXPECT_TRUE(work_of("aten::_flash_attention_forward", "[[64, 8, 32], [64, 8, 32], [64, 8, 32], [5], [5], [], []]", more,
                      R"(["", "", "", "", "", "32", "32"])")
                  .lower_bound);
}

TEST(Attention, TheEfficientFormNumbersItsMasks) {
  const std::string_view shapes = "[[1, 4, 1, 8], [1, 4, 1, 8], [1, 4, 1, 8], [], [], [], [], [], [], []]";
  const auto masked = [&](std::string_view type) {
    return work_of("aten::_efficient_attention_forward", shapes, kThree,
                   R"(["", "", "", "", "", "", "", "", "0.", ")" + std::string(type) + "\"]").needed_flops();
  };
  EXPECT_EQ(masked("0"), 2 * 2 * 16 * 8);
  EXPECT_EQ(masked("1"), 2 * 2 * 10 * 8);
  EXPECT_EQ(masked("2"), 2 * 2 * 10 * 8);
}

// 4 tokens with 16 heads: a query has 576 numbers, as each of the 1,000 vectors in the cache, 512 of which are the value.
TEST(Attention, LatentAttentionOfSingleTokensTakesTheEnginesFigures) {
  const auto work = [](std::string_view values, int64_t tokens, std::string_view indices = "[]") {
    const std::string shapes = "[[4, 1, 16, 576], [99, 64, 1, 576], [], [], [4], [4, 8], [], [], [9, 8], [5], " +
                               std::string(indices) + "]";
    const OpInputs in = op_inputs("_flashmla_C::fwd_kvcache_mla", shapes, R"(["c10::BFloat16", "c10::BFloat16"])", values);
    EXPECT_TRUE(attends_to_cache(in.name));
    return cached_attention(in, {.keys = 1000, .pairs = 1000, .masked_pairs = 0, .tokens = tokens});
  };
  const OpWork w = work(R"(["", "", "", "512", "", "", "0.1", "True", "", ""])", 4);
  EXPECT_EQ(w.flops, 2 * 16 * (576 + 512) * 1000);
  EXPECT_EQ(w.bytes, 2 * (4 * 16 * (576 + 512) + 1000 * 576));
  EXPECT_EQ(work(R"(["", "", "512", "", "", "", "0.1", "True", "", ""])", 4), w);
  EXPECT_EQ(work(R"(["", "", "512"])", 9), OpWork());               // prompts beside them
  EXPECT_EQ(work(R"(["", "", "512"])", 4, "[4, 1, 64]"), OpWork());   // a selection of keys
  EXPECT_EQ(work("", 4), OpWork());
}

TEST(Attention, OverACacheTakesTheEnginesFigures) {
  const OpInputs vllm = op_inputs("vllm::unified_attention_with_output", "[[4, 32, 128], [4, 8, 128], [4, 8, 128]]",
                                  R"(["c10::BFloat16", "c10::BFloat16", "c10::BFloat16"])", "");
  EXPECT_EQ(op_work(vllm), OpWork());
  ASSERT_TRUE(attends_to_cache(vllm.name));
  const OpWork w = cached_attention(vllm, {.keys = 1000, .pairs = 1200, .masked_pairs = 100});
  EXPECT_EQ(w.flops, 4 * 32 * 128 * 1200);
  EXPECT_EQ(w.needed_flops(), 4 * 32 * 128 * 1100);
  EXPECT_EQ(w.bytes, 2 * (2 * 4 * 32 * 128 + 1000 * 2 * 8 * 128));
  // Its slots in pages of one.
  const OpInputs ragged = op_inputs("sglang_profiler::attention_paged_attention_ragged_100",
                                    "[[4, 32, 128], [99], [4, 32, 128], [5000, 1, 8, 128], [5000, 1, 8, 128]]",
                                    R"(["c10::BFloat16", "unsigned char", "c10::BFloat16", "c10::BFloat16", "c10::BFloat16"])", "");
  EXPECT_EQ(cached_attention(ragged, {1000, 1200, 100}), w);
}

// FlashAttention 3 as engines call it: (q, k, v, k_new, v_new, q_v, out, cu_seqlens_q, cu_seqlens_k, ..., seqused_k,
// max_seqlen_q, max_seqlen_k, page_table, ..., softmax_scale, is_causal, ...).
std::string fa3_inputs(std::string_view first, std::string_view cu_seqlens, std::string_view pages) {
  std::string text = "[" + std::string(first) + ", [], [], [], []";
  for (int place = 7; place < 33; ++place)
    text += ", " + std::string(place == 7 || place == 8 ? cu_seqlens : place == 11 || place == 14 ? pages : "[]");
  return text + "]";
}
std::string fa3_values() {
  std::string text = "[";
  for (int place = 0; place < 33; ++place)
    text += place == 24 ? "\"True\", " : place == 25 || place == 26 ? "\"-1\", " : "\"\", ";
  return text + "\"\"]";
}

TEST(Attention, TheThirdFlashAttentionIsExactWithoutACache) {
  const std::string values = fa3_values();
  const std::string dense = fa3_inputs("[2, 64, 8, 32], [2, 64, 4, 32], [2, 64, 4, 32]", "[]", "[]");
  for (const char* name : {"_vllm_fa3_C::fwd", "sgl_kernel::fwd", "flash_attn_3::fwd"}) {
    const OpWork w = work_of(name, dense, kThree, values);
    EXPECT_EQ(w.flops, 2 * 2 * 2 * 8 * 64 * 64 * 32) << name;
    EXPECT_EQ(w.needed_flops(), 2 * 2 * 2 * 8 * (64 * 65 / 2) * 32) << name;
    EXPECT_FALSE(w.lower_bound);
  }
  const OpWork packed =
      work_of("_vllm_fa3_C::fwd", fa3_inputs("[128, 8, 32], [128, 4, 32], [128, 4, 32]", "[3]", "[]"), kThree, values);
  EXPECT_EQ(packed.flops, 2 * 2 * 2 * 8 * 64 * 64 * 32);
  EXPECT_TRUE(packed.lower_bound);
}

// (dout, q, k, v, out, lse, dq, dk, dv, cu_seqlens_q, ..., softmax_scale 15, is_causal 16, window 17, 18); as a custom
// operator gradients come behind the lengths.
TEST(Attention, TheThirdFlashAttentionGoesBackward) {
  std::string shapes = "[[2, 64, 8, 32], [2, 64, 8, 32], [2, 64, 4, 32], [2, 64, 4, 32], [2, 64, 8, 32], [2, 8, 64]";
  std::string values = R"(["", "", "", "", "", "")";
  for (int place = 6; place < 22; ++place) {
    shapes += ", []";
    values += place == 16 ? ", \"True\"" : place == 17 || place == 18 ? ", \"-1\"" : ", \"\"";
  }
  shapes += "]", values += "]";
  const std::string_view types =
      R"(["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "float"])";
  for (const char* name : {"flash_attn_3::bwd", "flash_attn_3::_flash_attn_backward"}) {
    const OpWork w = work_of(name, shapes, types, values);
    EXPECT_EQ(w.flops, 2 * 5 * 2 * 8 * 64 * 64 * 32) << name;
    EXPECT_EQ(w.needed_flops(), 2 * 5 * 2 * 8 * (64 * 65 / 2) * 32) << name;
  }
}

// (q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, ...): later versions have min_seqlen_q and
// logits_soft_cap before the flags.
TEST(Attention, OfAiterIsKnownInBothVersions) {
  const std::string_view shapes = "[[128, 8, 32], [128, 4, 32], [128, 4, 32], [3], [3], [], [], [], [], [], [], [], [], [], []]";
  const std::string_view types = R"(["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "int", "int"])";
  constexpr std::string_view kValues[] = {
      R"(["", "", "", "", "", "64", "64", "0.", "0.1", "False", "True", "-1", "-1", "", ""])",
      R"(["", "", "", "", "", "64", "64", "0", "0.", "0.1", "0.", "False", "True", "-1", "-1"])"};
  for (const std::string_view values : kValues) {
    const OpWork w = work_of("aiter::mha_varlen_fwd", shapes, types, values);
    EXPECT_EQ(w.needed_flops(), 2 * 2 * 2 * 8 * (64 * 65 / 2) * 32) << values;
    EXPECT_FALSE(w.lower_bound) << values;
  }
  EXPECT_EQ(work_of("aiter::mha_varlen_fwd", shapes, types), OpWork());
  // Over pages, how many keys are read is in a tensor.
  EXPECT_EQ(work_of("aiter::fmha_v3_varlen_fwd",
                    "[[128, 8, 32], [99, 16, 4, 32], [99, 16, 4, 32], [3], [3], [], [], [], [], [], [], [], [], [], []]",
                    types, kValues[1]),
            OpWork());
}

// Without the flag's value, half of it may be masked.
TEST(Attention, AnAutogradFunctionNeedsItsFlag) {
  const std::string_view shapes = "[[2, 64, 8, 32], [2, 64, 4, 32], [2, 64, 4, 32], [], [], []]";
  EXPECT_EQ(work_of("FlashAttnFunc", shapes, kThree), OpWork());
  EXPECT_EQ(work_of("FlashAttnFunc", shapes, kThree, R"(["", "", "", "0.", "", "True"])").needed_flops(),
            2 * 2 * 2 * 8 * (64 * 65 / 2) * 32);
}

// Of a cache in pages, how many keys are read is in a tensor: only the engine's step says it.
TEST(Attention, OverPagesTakesTheEnginesFigures) {
  const std::string_view types = R"(["c10::BFloat16", "c10::BFloat16", "c10::BFloat16"])";
  const std::string paged = fa3_inputs("[4, 32, 128], [99, 16, 8, 128], [99, 16, 8, 128]", "[5]", "[5]");
  const OpInputs fa3 = op_inputs("_vllm_fa3_C::fwd", paged, types, "");
  EXPECT_EQ(op_work(fa3), OpWork());
  ASSERT_TRUE(attends_to_cache(fa3.name));
  const OpWork w = cached_attention(fa3, {.keys = 1000, .pairs = 1200, .masked_pairs = 100});
  EXPECT_EQ(w.flops, 4 * 32 * 128 * 1200);
  EXPECT_EQ(w.bytes, 2 * (2 * 4 * 32 * 128 + 1000 * 2 * 8 * 128));
  // Keys in parts of eight bytes; a page has 16 slots.
  const OpInputs v1 = op_inputs("_C::paged_attention_v1",
                                "[[4, 32, 128], [4, 32, 128], [99, 8, 16, 16, 8], [99, 8, 128, 16], [], [], [4, 9], [4], []]",
                                R"(["c10::Half", "c10::Half", "c10::Half", "c10::Half"])",
                                R"(["", "", "", "", "8", "0.1", "", "", "16"])");
  const OpWork paged_v1 = cached_attention(v1, {1000, 1200, 100});
  EXPECT_EQ(paged_v1.flops, w.flops);
  EXPECT_EQ(paged_v1.bytes, w.bytes);
  // ROCm's has one input more before the size of a page.
  const auto rocm = [](std::string_view values) {
    return cached_attention(
        op_inputs("_rocm_C::paged_attention",
                  "[[4, 32, 128], [9], [9], [9], [4, 32, 128], [99, 8, 16, 16, 8], [99, 8, 128, 16], [], [], [4, 9], [4], [], []]",
                  R"(["", "", "", "", "c10::Half", "c10::Half", "c10::Half"])", values),
        {1000, 1200, 100});
  };
  EXPECT_EQ(rocm(R"(["", "", "", "", "", "", "", "8", "0.1", "", "", "16", "512"])").bytes, w.bytes);
  EXPECT_EQ(rocm(R"(["", "", "", "", "", "", "", "8", "0.1", "", "", "", "16"])").bytes, w.bytes);
  EXPECT_EQ(rocm("").bytes, -1);   // the size of a page was not recorded
  // Latent attention is known by name, and its work is not.
  EXPECT_NE(find_family("vllm::unified_mla_attention_with_output"), nullptr);
  EXPECT_FALSE(attends_to_cache("vllm::unified_mla_attention_with_output"));
}

TEST(Attention, XformersIsThatOfPyTorch) {
  const std::string_view dense = "[[2, 64, 8, 32], [2, 64, 8, 32], [2, 64, 8, 32], [], [], [], [], [], [], [], [], [], []]";
  const std::string_view causal = R"(["", "", "", "", "", "", "", "", "0.0", "1", "", "", ""])";
  EXPECT_EQ(work_of("xformers::efficient_attention_forward_cutlass", dense, kThree, causal).needed_flops(),
            4 * 2 * 8 * (64 * 65 / 2) * 32);
  // A window, or lengths of sequences in a tensor.
  EXPECT_EQ(work_of("xformers::efficient_attention_forward_cutlass", dense, kThree,
                    R"(["", "", "", "", "", "", "", "", "0.0", "1", "", "", "16"])"),
            OpWork());
  EXPECT_EQ(work_of("xformers_flash::flash_fwd", dense, kThree,
                    R"(["", "", "", "", "", "", "64", "64", "0.", "0.1", "True", "-1", "-1"])").needed_flops(),
            4 * 2 * 8 * (64 * 65 / 2) * 32);
}

TEST(Attention, SaysItsHeadSizeAndQueries) {
  const OpWork w = work_of("aten::_scaled_dot_product_flash_attention",
                           "[[4, 8, 2048, 256], [4, 8, 2048, 256], [4, 8, 2048, 256]]", R"(["BFloat16", "BFloat16", "BFloat16"])",
                           R"(["", "", "", "0.0", "False", "False", ""])");
  EXPECT_EQ(w.attention, (AttentionSizes{.head_size = 256, .queries = 2048, .keys = 2048}));
  EXPECT_EQ(w.precision, Precision::kBf16);
}

TEST(Attention, OfAitersSageHasFlopsOfNoOnePrecision) {
  const auto sage = [](std::string_view shapes, std::string_view values = "") {
    return work_of("_FAv3SageWrapperFunc", shapes, kThree, values);
  };
  const int64_t flops = int64_t{4} * 24 * 4608 * 4608 * 128;
  const std::string_view heads_first = "[[1, 24, 4608, 128], [1, 24, 4608, 128], [1, 24, 4608, 128], [], [], [], []]";
  EXPECT_EQ(sage(heads_first).flops, flops);
  EXPECT_EQ(sage(heads_first).precision, Precision::kUnknown);
  EXPECT_EQ(sage("[[1, 4608, 24, 128], [1, 4608, 24, 128], [1, 4608, 24, 128], [], [], [], []]").flops, flops);
  // Either could be the heads.
  const std::string_view small = "[[1, 24, 64, 128], [1, 24, 64, 128], [1, 24, 64, 128], [], [], [], []]";
  EXPECT_EQ(sage(small).flops, -1);
  EXPECT_EQ(sage(small, R"(["", "", "", "", "False", "", "bhsd"])").flops, int64_t{4} * 24 * 64 * 64 * 128);
}

}  // namespace
}  // namespace profgpu
