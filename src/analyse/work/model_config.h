// ModelConfig: the sizes of a language model from its Hugging Face config.json, and the FLOPs of a token.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "analyse/work/op_work.h"
#include "base/result.h"

namespace profgpu {

/// A model's layers. Weights are those of products, of convolutions and of embeddings; norms and biases, less than
/// 0.1 % of a model, do not count.
struct ModelConfig {
  std::string type;                   ///< "llama", as `model_type` says
  Precision precision = Precision::kUnknown;   ///< of its weights, as the config says
  int64_t layers = 0, hidden = 0, vocabulary = 0;
  int64_t heads = 0, kv_heads = 0;
  int64_t key_size = 0, value_size = 0;        ///< of a head
  int64_t attention_layers = 0;       ///< of layers; the others mix tokens by a scan
  int64_t projections = 0;            ///< weights of the products around one layer's attention
  int64_t scan_products = 0;          ///< likewise around one layer's scan
  int64_t scan_others = 0;            ///< its other weights: a short convolution, decays
  int64_t dense_layers = 0;           ///< of layers, those without experts
  int64_t dense_weights = 0;          ///< of one dense layer's feed-forward block
  int64_t expert_weights = 0;         ///< of one expert
  int64_t experts = 0, experts_used = 0;       ///< of a layer with experts; used: by a token
  int64_t shared_weights = 0;         ///< of such a layer, what all tokens use, without the choice of experts
  bool tied = false;                  ///< the last product uses the embedding's weights
  bool has_head = true;               ///< whether the last product is to the vocabulary
  int64_t head_products = 0;          ///< weights of a product before that
  int64_t lookup_weights = 0;         ///< learned positions and types of tokens
  bool causal = true;
  bool has_more = false;              ///< the config describes more, such as a part for images
  int64_t windowed_layers = 0;        ///< of attention_layers, those whose tokens attend to `window` keys at most
  int64_t window = 0;
  bool chunked = false;               ///< windows lie side by side, and do not slide
  std::string unknown;                ///< why all but the type is unknown; empty: it is not

  /// All weights, and those that a token's products use: without embeddings that are only looked up.
  [[nodiscard]] double parameters() const;
  [[nodiscard]] double active_weights() const;
  /// Of active_weights(), those of the product to the vocabulary and of the one before it.
  [[nodiscard]] double head_weights() const;
  /// Of a token in the forward pass: 2 for each weight that it uses.
  [[nodiscard]] double flops_of_weights() const { return 2 * active_weights(); }
  /// Of a token in the forward pass that attends to so many keys, and to so many in layers with windows.
  [[nodiscard]] double flops_of_attention(double keys, double windowed_keys) const;
  /// Keys that a token of a sequence of this length attends to on average: all, or with a causal mask half.
  [[nodiscard]] double keys_of(double sequence_length) const {
    return causal ? (sequence_length + 1) / 2 : sequence_length;
  }
  /// Likewise in layers with windows.
  [[nodiscard]] double windowed_keys_of(double sequence_length) const;
};

/// A type that is not known gives a config with `unknown`. The error names the file and what is wrong or missing.
Result<ModelConfig> model_config_from_json(std::string text, std::string_view path);

}  // namespace profgpu
