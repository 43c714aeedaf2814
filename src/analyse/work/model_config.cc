#include "analyse/work/model_config.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <span>

#include "analyse/work/op_sizes.h"
#include "base/json_reader.h"
#include "base/text.h"

namespace profgpu {
namespace {

// Members of a config that are numbers, texts and flags; others do not matter here.
struct Members {
  std::map<std::string, int64_t, std::less<>> numbers;
  std::map<std::string, std::string, std::less<>> texts;
  std::map<std::string, bool, std::less<>> flags;
  std::string architectures;    // the list as it stands; empty: none

  /// The first of these names that is there.
  [[nodiscard]] std::optional<int64_t> number(std::initializer_list<std::string_view> names) const {
    for (const std::string_view name : names)
      if (const auto it = numbers.find(name); it != numbers.end()) return it->second;
    return std::nullopt;
  }
  [[nodiscard]] int64_t number_or(std::initializer_list<std::string_view> names, int64_t otherwise) const {
    return number(names).value_or(otherwise);
  }
  [[nodiscard]] bool flag_or(std::string_view name, bool otherwise) const {
    const auto it = flags.find(name);
    return it == flags.end() ? otherwise : it->second;
  }
  [[nodiscard]] std::string text(std::string_view name) const {
    const auto it = texts.find(name);
    return it == texts.end() ? std::string() : it->second;
  }
};

bool read_member(JsonReader& in, std::string_view key, Members& members) {
  if (in.peek() == '"') {
    JsonString text;
    int64_t replaced = 0;
    if (!in.string(text)) return false;
    members.texts[std::string(key)] = unescaped(text, replaced);
    return true;
  }
  if (key == "architectures") {
    std::string_view list;
    if (!in.raw_value(list)) return false;
    members.architectures = list;
    return true;
  }
  if (in.peek() == '{' || in.peek() == '[') return in.skip_value();
  std::string_view token;
  if (!in.scalar(token)) return false;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), number);
  if (error == std::errc() && end == token.data() + token.size()) members.numbers[std::string(key)] = number;
  else if (token == "true" || token == "false") members.flags[std::string(key)] = token == "true";
  return true;
}

// How a family of models is built, where their configs do not say it.
struct Build {
  std::string_view types;     ///< model_type, with blanks between them
  bool gated = true;          ///< the feed-forward block has a gate: three products, else two
  bool causal = true;
  bool tied = false;          ///< unless the config says it
  bool positions = false;     ///< has a table of learned positions
};
constexpr Build kBuilds[] = {
    {.types = "llama mistral qwen2 qwen3 phi3 olmo olmo2 stablelm granite internlm2 smollm3 cohere glm4 mixtral "
              "qwen2_moe qwen3_moe olmoe deepseek deepseek_v2 deepseek_v3"},
    {.types = "gemma gemma2 gemma3_text", .tied = true},
    {.types = "gpt_neox gptj phi", .gated = false},
    {.types = "starcoder2", .gated = false, .tied = true},
    {.types = "falcon bloom", .gated = false, .tied = true},
    {.types = "gpt2 opt gpt_neo gpt_bigcode", .gated = false, .tied = true, .positions = true},
    {.types = "bert roberta distilbert xlm-roberta", .gated = false, .causal = false, .tied = true,
     .positions = true},
};

const Build* build_of(std::string_view type) {
  for (const Build& build : kBuilds)
    for (const std::string_view name : pieces_of(build.types, ' '))
      if (name == type) return &build;
  return nullptr;
}

std::string known_types() {
  std::string all;
  for (const Build& build : kBuilds)
    for (const std::string_view name : pieces_of(build.types, ' '))
      append_listed(all, std::string(name));
  return all;
}

Precision precision_of_config(const Members& m) {
  std::string type = m.text("torch_dtype");
  if (type.empty()) type = m.text("dtype");
  if (type == "bfloat16") return Precision::kBf16;
  if (type == "float16") return Precision::kFp16;
  return type == "float32" ? Precision::kFp32 : Precision::kUnknown;
}

// Multi-head latent attention: keys and values are made of a small vector.
Amount latent_projections(const Members& m, ModelConfig& c) {
  const int64_t rope = m.number_or({"qk_rope_head_dim"}, 0), nope = m.number_or({"qk_nope_head_dim"}, 0);
  const int64_t latent = m.number_or({"kv_lora_rank"}, 0), query = m.number_or({"q_lora_rank"}, 0);
  c.key_size = rope + nope;
  c.value_size = m.number_or({"v_head_dim"}, 0);
  c.kv_heads = c.heads;
  const Amount hidden = c.hidden, keys = Amount(c.heads) * c.key_size;
  const Amount queries = query > 0 ? hidden * query + Amount(query) * keys : hidden * keys;
  return queries + hidden * (latent + rope) + Amount(latent) * c.heads * (nope + c.value_size) +
         Amount(c.heads) * c.value_size * hidden;
}

Amount projections_of(const Members& m, ModelConfig& c) {
  if (m.numbers.contains("kv_lora_rank")) return latent_projections(m, c);
  c.key_size = m.number_or({"head_dim"}, c.heads > 0 ? c.hidden / c.heads : 0);
  c.value_size = c.key_size;
  const Amount own = Amount(c.heads) * c.key_size, shared = Amount(c.kv_heads) * c.key_size;
  return Amount(c.hidden) * (own + shared + shared + own);
}

// Models for classification and embeddings end without a product to the vocabulary.
bool ends_in_vocabulary(std::string_view architectures) {
  constexpr std::string_view kHeads[] = {"ForCausalLM", "LMHead", "ForMaskedLM", "ForPreTraining"};
  return architectures.empty() || contains_any(architectures, kHeads);
}

constexpr int64_t kMostSize = 1'000'000'000, kMostNumber = 1'000'000'000'000'000;

struct Wanted {
  std::string_view what;
  std::initializer_list<std::string_view> names;
  int64_t ModelConfig::*to;
};

std::string lacks(const Members& m, ModelConfig& c) {
  const Wanted wanted[] = {
      {"num_hidden_layers", {"num_hidden_layers", "n_layer", "n_layers", "num_layers"}, &ModelConfig::layers},
      {"hidden_size", {"hidden_size", "n_embd", "dim", "d_model"}, &ModelConfig::hidden},
      {"num_attention_heads", {"num_attention_heads", "n_head", "n_heads", "num_heads"}, &ModelConfig::heads},
      {"vocab_size", {"vocab_size"}, &ModelConfig::vocabulary}};
  for (const Wanted& w : wanted) {
    const std::optional<int64_t> value = m.number(w.names);
    if (!value) return "it lacks " + std::string(w.what);
    if (*value <= 0) return std::string(w.what) + " is not above 0";
    if (*value > kMostSize) return std::string(w.what) + " is too large";
    c.*w.to = *value;
  }
  return "";
}

int64_t kv_heads_of(const Members& m, const ModelConfig& c) {
  if (c.type == "falcon" && !m.flag_or("new_decoder_architecture", false))
    return m.flag_or("multi_query", true) ? 1 : c.heads;
  if (c.type == "gpt_bigcode") return m.flag_or("multi_query", true) ? 1 : c.heads;
  return m.number_or({"num_key_value_heads", "num_kv_heads"}, c.heads);
}

void set_experts(const Members& m, const Build& build, int64_t feed_forward, ModelConfig& c) {
  const Amount matrices = build.gated ? 3 : 2;
  c.dense_weights = (matrices * c.hidden * feed_forward).or_unknown();
  c.experts = m.number_or({"num_local_experts", "n_routed_experts", "num_experts"}, 0);
  c.dense_layers = c.layers;
  if (c.experts <= 0) return;
  c.experts_used = m.number_or({"num_experts_per_tok", "moe_topk"}, 1);
  const int64_t width = m.number_or({"moe_intermediate_size"}, feed_forward);
  c.expert_weights = (matrices * c.hidden * width).or_unknown();
  c.shared_experts = std::max<int64_t>(m.number_or({"n_shared_experts"}, 0), 0);
  // Qwen's shared expert has a width of its own.
  if (const auto shared = m.number({"shared_expert_intermediate_size"}); shared && width > 0)
    c.shared_experts = std::max<int64_t>(*shared, 0) / width;
  c.dense_layers = std::clamp<int64_t>(m.number_or({"first_k_dense_replace"}, 0), 0, c.layers);
}

}  // namespace

double ModelConfig::parameters() const {
  const auto d = [](int64_t n) { return static_cast<double>(n); };
  const double sparse = d(experts + shared_experts) * d(expert_weights) + d(experts) * d(hidden);
  const double blocks = d(layers) * d(projections) + d(dense_layers) * d(dense_weights) +
                        d(layers - dense_layers) * (experts > 0 ? sparse : 0);
  return blocks + d(vocabulary) * d(hidden) * (tied || !has_head ? 1 : 2) + d(position_weights);
}

double ModelConfig::active_weights() const {
  const auto d = [](int64_t n) { return static_cast<double>(n); };
  const double sparse = d(experts_used + shared_experts) * d(expert_weights) + d(experts) * d(hidden);
  const double blocks = d(layers) * d(projections) + d(dense_layers) * d(dense_weights) +
                        d(layers - dense_layers) * (experts > 0 ? sparse : 0);
  return blocks + (has_head ? d(vocabulary) * d(hidden) : 0);
}

double ModelConfig::flops_of_attention(double keys) const {
  return 2 * static_cast<double>(layers) * static_cast<double>(heads) * static_cast<double>(key_size + value_size) *
         keys;
}

Result<ModelConfig> model_config_from_json(std::string text, std::string_view path) {
  Members m;
  JsonReader in = JsonReader::over(text);
  const auto wrong = [&](const std::string& what) {
    return Error{std::string(path) + ": " + what, "give the config.json of a Hugging Face model"};
  };
  const bool read = read_object(in, [&](std::string_view key) { return read_member(in, key, m); });
  if (!read || in.peek() != 0) return wrong("not a model's config: no JSON object");
  for (const auto& [name, number] : m.numbers)   // sums of a few of them fit
    if (number > kMostNumber || number < -kMostNumber) return wrong(name + " is too large");
  ModelConfig c;
  c.type = m.text("model_type");
  if (c.type.empty()) return wrong("not a model's config: it lacks model_type");
  const Build* const build = build_of(c.type);
  if (build == nullptr)
    return Error{std::string(path) + ": models of type \"" + c.type + "\" are not known", "known: " + known_types()};
  if (const std::string what = lacks(m, c); !what.empty()) return wrong(what);
  c.precision = precision_of_config(m);
  c.causal = build->causal;
  c.has_head = ends_in_vocabulary(m.architectures);
  c.tied = m.flag_or("tie_word_embeddings", build->tied);
  c.kv_heads = kv_heads_of(m, c);
  if (c.kv_heads <= 0 || c.heads % c.kv_heads != 0)
    return wrong("num_attention_heads is not a multiple of num_key_value_heads");
  c.projections = projections_of(m, c).or_unknown();
  const int64_t feed_forward =
      m.number_or({"intermediate_size", "n_inner", "ffn_dim", "hidden_dim", "ffn_hidden_size"}, 4 * c.hidden);
  set_experts(m, *build, feed_forward, c);
  const int64_t positions = m.number_or({"max_position_embeddings", "n_positions"}, 0);
  if (build->positions) c.position_weights = (Amount(positions) * c.hidden).or_unknown();
  if (c.experts_used > c.experts) return wrong("num_experts_per_tok is more than there are experts");
  if (c.experts > 0 && c.experts_used <= 0) return wrong("num_experts_per_tok is not above 0");
  for (const int64_t size : {c.key_size, c.value_size, feed_forward})
    if (size <= 0) return wrong("the size of a head or of the feed-forward block is not above 0");
  constexpr double kMost = 1e18;   // any sum of products of sizes stays exact enough
  for (const int64_t n : {c.projections, c.dense_weights, c.expert_weights, c.position_weights})
    if (n < 0 || static_cast<double>(n) > kMost) return wrong("sizes are negative, or too large to multiply");
  return c;
}

}  // namespace profgpu
