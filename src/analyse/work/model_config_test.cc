#include "analyse/work/model_config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace profgpu {
namespace {

Result<ModelConfig> read(std::string text) { return model_config_from_json(std::move(text), "config.json"); }

std::string error_of(std::string text) {
  const auto model = read(std::move(text));
  return model ? "" : model.error().message;
}

constexpr const char* kLlama2 = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
  "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
  "vocab_size": 32000, "torch_dtype": "float16", "rope_scaling": null, "tie_word_embeddings": false})";

constexpr double kSmall = 0.0015;   // norms and biases of small models, which do not count

// Weights as the models' authors publish them.
TEST(ModelConfig, WeightsAreThoseThatArePublished) {
  const struct {
    const char* config;
    double weights, active;   // active: those that a token's products use; 0: not checked
  } kModels[] = {
      {kLlama2, 6'738'415'616, 6'738'415'616 - 32000.0 * 4096},
      {R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
           "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256})", 8'030'261'248, 0},
      {R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "n_inner": null,
           "vocab_size": 50257, "architectures": ["GPT2LMHeadModel"]})", 124'439'808, 0},
      {R"({"model_type": "bert", "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
           "num_attention_heads": 12, "max_position_embeddings": 512, "vocab_size": 30522,
           "architectures": ["BertModel"]})", 108'891'648, 84'934'656},
      {R"({"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
           "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064})", 7'615'616'512, 0},
      {R"({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
           "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2,
           "vocab_size": 32000})", 46'702'792'704, 12'879'925'248 - 32000.0 * 4096},
      {R"({"model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048,
           "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128, "n_routed_experts": 256,
           "num_experts_per_tok": 8, "n_shared_experts": 1, "first_k_dense_replace": 3, "q_lora_rank": 1536,
           "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
           "vocab_size": 129280})", 671'026'404'352, 0},
  };
  for (const auto& m : kModels) {
    const auto model = read(m.config);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_NEAR(model->parameters() / m.weights, 1, kSmall) << model->type;
    if (m.active <= 0) continue;
    EXPECT_NEAR(model->active_weights() / m.active, 1, kSmall) << model->type;
  }
}

TEST(ModelConfig, ATokenNeedsTwoOperationsForEachWeight) {
  const auto model = read(kLlama2);
  ASSERT_TRUE(model);
  EXPECT_EQ(model->precision, Precision::kFp16);
  // 32 layers of 4 x 4096^2 for attention and 3 x 4096 x 11008, and the product to the vocabulary.
  const double weights = 32 * (4.0 * 4096 * 4096 + 3.0 * 4096 * 11008) + 32000.0 * 4096;
  EXPECT_EQ(model->active_weights(), weights);
  EXPECT_EQ(model->flops_of_weights(), 2 * weights);
  // Queries times keys, and scores times values: 2 x 2 x 32 layers x 32 heads x 128 for each key.
  EXPECT_EQ(model->flops_of_attention(10, 0), 4.0 * 32 * 32 * 128 * 10);
  EXPECT_EQ(model->keys_of(2047), 1024);   // a causal mask leaves (n + 1) / 2
}

// Of a model that also sees, the language model counts; what Gemma 3's text_config leaves out is its first size's.
TEST(ModelConfig, OfALargerModelTheLanguageModelCounts) {
  const auto model = read(R"({"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
    "torch_dtype": "bfloat16", "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 9},
    "text_config": {"model_type": "gemma3_text", "hidden_size": 64, "intermediate_size": 160,
                    "num_hidden_layers": 2}})");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->type, "gemma3_text");
  EXPECT_TRUE(model->has_more);
  EXPECT_EQ(model->precision, Precision::kBf16);
  const double layer = 64.0 * 256 * (8 + 4 + 4 + 8) + 3.0 * 64 * 160;
  EXPECT_EQ(model->parameters(), 2 * layer + 262'208.0 * 64);   // the vocabulary's once: it is tied
  EXPECT_EQ(model->active_weights(), model->parameters());
}

// Attention in one layer of four, an expert of its own width for all tokens, and a scan that only its products count of.
TEST(ModelConfig, LayersOfTwoKindsCountApart) {
  const auto model = read(R"({"model_type": "qwen3_next", "hidden_size": 64, "intermediate_size": 160,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 100,
    "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48, "shared_expert_intermediate_size": 40,
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 16, "linear_value_head_dim": 24,
    "mlp_only_layers": [0]})");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->attention_layers, 1);
  EXPECT_EQ(model->dense_layers, 1);
  const double attention = 64.0 * 16 * (8 + 2 + 2 + 4), scan = 64.0 * (2 * 32 + 2 * 96 + 2 * 4) + 96.0 * 64;
  const double sparse = 3.0 * 64 * 40 + 64 + 8.0 * 64;
  EXPECT_EQ(model->active_weights(),
            attention + 3 * scan + 3.0 * 64 * 160 + 3 * (sparse + 2 * 3.0 * 64 * 48) + 100.0 * 64);
  EXPECT_EQ(model->parameters() - model->active_weights(),
            3 * 6 * 3.0 * 64 * 48 + 3 * (64.0 + 96) * 4 + 100.0 * 64);
  EXPECT_EQ(model->flops_of_attention(10, 0), 2.0 * 4 * (16 + 16) * 10);
}

// With 12 layers, 2 heads and 64 keys at most; a null takes the type's own window away.
TEST(ModelConfig, SomeLayersHaveWindows) {
  const auto windows = [](std::string_view type, std::string_view more) {
    const auto model = read(fmt::format(R"({{"model_type": "{}", "hidden_size": 8, "intermediate_size": 8,
      "num_hidden_layers": 12, "num_attention_heads": 2, "vocab_size": 9{}}})", type, more));
    return std::pair(model->windowed_layers, model->window);
  };
  using Windows = std::pair<int64_t, int64_t>;
  EXPECT_EQ(windows("llama", R"(, "sliding_window": 64)"), Windows(0, 0));
  EXPECT_EQ(windows("mistral", ""), Windows(12, 4096));
  EXPECT_EQ(windows("mistral", R"(, "sliding_window": null)"), Windows(0, 0));
  EXPECT_EQ(windows("phi3", R"(, "sliding_window": 2047)"), Windows(12, 2047));
  EXPECT_EQ(windows("gemma3_text", R"(, "sliding_window": 1024)"), Windows(10, 1024));
  EXPECT_EQ(windows("gemma2", ""), Windows(6, 4096));
  EXPECT_EQ(windows("gpt_oss", R"(, "layer_types": ["sliding_attention", "full_attention", "full_attention"])"),
            Windows(1, 128));
  EXPECT_EQ(windows("exaone4", R"(, "sliding_window": 64, "sliding_window_pattern": "LLLG")"), Windows(9, 64));
  EXPECT_EQ(windows("qwen2", R"(, "sliding_window": 64, "use_sliding_window": false)"), Windows(0, 0));
  EXPECT_EQ(windows("qwen2", R"(, "sliding_window": 64, "use_sliding_window": true, "max_window_layers": 8)"),
            Windows(4, 64));
}

TEST(ModelConfig, ChunksLieSideBySide) {
  ModelConfig c;
  c.windowed_layers = 1, c.window = 4, c.chunked = true;
  EXPECT_EQ(c.windowed_keys_of(10), (10.0 + 10 + 3) / 10);   // 1 to 4, 1 to 4, 1 and 2
  c.chunked = false;
  EXPECT_EQ(c.windowed_keys_of(10), (10.0 + 6 * 4) / 10);
  EXPECT_EQ(c.windowed_keys_of(3), 2);
}

// A new name of a class that is known, a language model within a larger one, and what configs leave out.
TEST(ModelConfig, ModelsAreKnownByTheirArchitecturesAsWell) {
  const auto kimi = read(R"({"architectures": ["DeepseekV3ForCausalLM"], "model_type": "kimi_k9", "hidden_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100, "intermediate_size": 128})");
  ASSERT_TRUE(kimi);
  EXPECT_EQ(kimi->unknown, "");
  EXPECT_EQ(kimi->type, "kimi_k9");
  EXPECT_EQ(kimi->layers, 2);
  const auto llava = read(R"({"architectures": ["LlavaForConditionalGeneration"], "model_type": "llava",
    "text_config": {"model_type": "llama", "vocab_size": 32064}, "vision_config": {"model_type": "clip_vision_model"}})");
  ASSERT_TRUE(llava);
  EXPECT_EQ(llava->active_weights(), 32 * (4.0 * 4096 * 4096 + 3.0 * 4096 * 11008) + 32064.0 * 4096);
  const auto qwen = read(R"({"model_type": "qwen2_5_vl", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100, "vision_config": {"depth": 32}})");
  ASSERT_TRUE(qwen);
  EXPECT_TRUE(qwen->has_more);
  const auto arcee = read(R"({"model_type": "arcee", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 100})");
  ASSERT_TRUE(arcee);
  EXPECT_EQ(arcee->active_weights(), 4.0 * 64 * 64 + 2.0 * 64 * 128 + 100.0 * 64);   // without a gate
  const auto glm = read(R"({"model_type": "chatglm", "hidden_size": 64, "ffn_hidden_size": 128, "num_layers": 1,
    "num_attention_heads": 4, "padded_vocab_size": 100, "multi_query_attention": true, "multi_query_group_num": 2})");
  ASSERT_TRUE(glm);
  EXPECT_EQ(glm->active_weights(), 3.0 * 64 * 64 + 3.0 * 64 * 128 + 100.0 * 64);
}

TEST(ModelConfig, OtherTypesAreUnknown) {
  const auto other = read(R"({"architectures": ["ViTForImageClassification"], "model_type": "vit"})");
  ASSERT_TRUE(other);
  EXPECT_EQ(other->unknown, "models of type \"vit\" are not known");
  const auto halves = read(R"({"model_type": "t5", "d_model": 64})");
  ASSERT_TRUE(halves);
  EXPECT_EQ(halves->unknown, "a token of a t5 model passes through its encoder or its decoder, so that the FLOPs of a token "
                             "are not known");
}

// A model that also sees: what its language model's config leaves out, only its library knows.
TEST(ModelConfig, ANestedConfigThatLacksSizesIsUnknown) {
  const auto chat = read(R"({"model_type": "internvl_chat", "llm_config": {"model_type": "qwen2", "hidden_size": 3584}})");
  ASSERT_TRUE(chat);
  EXPECT_EQ(chat->unknown, "the config of its qwen2 model lacks num_hidden_layers");
}

TEST(ModelConfig, WhatCannotBeReadIsSaid) {
  EXPECT_EQ(error_of("no"), "config.json: not a model's config: no JSON object");
  EXPECT_EQ(error_of("{}"), "config.json: not a model's config: it lacks model_type");
  EXPECT_EQ(error_of(R"({"model_type": "llama", "num_hidden_layers": 2})"), "config.json: it lacks hidden_size");
  EXPECT_EQ(error_of(R"({"model_type": "gpt2", "n_layer": 0, "n_embd": 8, "n_head": 2, "vocab_size": 9})"),
            "config.json: num_hidden_layers is not above 0");
  EXPECT_EQ(error_of(R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 3,
                         "num_key_value_heads": 2, "vocab_size": 9})"),
            "config.json: num_attention_heads is not a multiple of num_key_value_heads");
  EXPECT_EQ(error_of(R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 9000000000000000000,
                         "num_attention_heads": 3, "vocab_size": 9})"),
            "config.json: hidden_size is too large");
  EXPECT_EQ(error_of(R"({"model_type": "llama", "num_hidden_layers": 1000000000, "hidden_size": 8,
                         "num_attention_heads": 1, "vocab_size": 9})"),
            "config.json: num_hidden_layers is too large");
  EXPECT_EQ(error_of(R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 1000000000,
                         "num_attention_heads": 1, "head_dim": 1000000000000, "vocab_size": 9})"),
            "config.json: sizes are negative, or too large to multiply");
  EXPECT_EQ(error_of(R"({"model_type": "mixtral", "num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2,
                         "vocab_size": 9, "num_local_experts": 2, "num_experts_per_tok": 3})"),
            "config.json: num_experts_per_tok is more than there are experts");
  EXPECT_EQ(error_of(R"({"model_type": "deepseek_v3", "num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2,
                         "vocab_size": 9, "n_routed_experts": 9223372036854775807, "n_shared_experts": 1})"),
            "config.json: n_routed_experts is too large");
  EXPECT_NE(error_of(std::string(kLlama2).substr(0, 80)), "");
}

}  // namespace
}  // namespace profgpu
