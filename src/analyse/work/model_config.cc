#include "analyse/work/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "analyse/work/op_sizes.h"
#include "base/decimal.h"
#include "base/json_reader.h"
#include "base/text.h"

namespace profgpu {
namespace {

// Members of a config that are numbers, texts, flags and lists, and the object that describes the language model within
// a larger one; others do not matter here.
struct Members {
  std::map<std::string, int64_t, std::less<>> numbers;
  std::map<std::string, std::string, std::less<>> texts;
  std::map<std::string, bool, std::less<>> flags;
  std::map<std::string, std::string, std::less<>> lists;   // as they stand
  std::string text_config;      // an object as it stands; empty: none

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
  /// Empty: there is none.
  [[nodiscard]] std::string_view list(std::string_view name) const {
    const auto it = lists.find(name);
    return it == lists.end() ? std::string_view() : it->second;
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
  if (const char first = in.peek(); first == '{' || first == '[') {
    std::string_view raw;
    if (!in.raw_value(raw)) return false;
    if (first == '[') members.lists[std::string(key)] = raw;
    else if (key == "text_config") members.text_config = raw;
    return true;
  }
  std::string_view token;
  if (!in.scalar(token)) return false;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), number);
  if (error == std::errc() && end == token.data() + token.size()) members.numbers[std::string(key)] = number;
  else if (token == "true" || token == "false") members.flags[std::string(key)] = token == "true";
  return true;
}

// Which layers have experts, of models that have some.
enum class Sparse : uint8_t {
  kAll,        ///< all but the first `first_k_dense_replace`
  kStep,       ///< each `decoder_sparse_step`-th but `mlp_only_layers`
  kInterleave, ///< `moe_layers`, else each `interleave_moe_layer_step`-th
  kPeriod,     ///< by `expert_layer_period` and `expert_layer_offset`
};

// What a layer mixes tokens by.
enum class Mixer : uint8_t {
  kAttention,
  kScan,       ///< a selective scan in all layers
  kScan2,      ///< its second form
  kSomeScan,   ///< attention by `attn_layer_period` and `attn_layer_offset`, else a selective scan
  kSomeDelta,  ///< attention with a gate in some, else the gated delta rule
};

// How a family of models is built, where their configs do not say it.
struct Build {
  std::string_view types;     ///< model_type, with blanks between them
  bool gated = true;          ///< the feed-forward block has a gate: three products, else two
  bool causal = true;
  bool tied = false;          ///< unless the config says it
  bool positions = false;     ///< has a table of learned positions
  int64_t head_size = 0;      ///< unless the config says it; 0: hidden size over heads
  Sparse sparse = Sparse::kAll;
  Mixer mixer = Mixer::kAttention;
};
// tests/python/test_model_config.py compares these with the models of `transformers`.
constexpr Build kBuilds[] = {
    {.types = "llama mistral qwen2 phi3 olmo olmo2 stablelm granite internlm2 cohere exaone4 hunyuan_v1_dense mixtral "
              "phimoe olmoe granitemoe deepseek deepseek_v2 deepseek_v3 glm4_moe"},
    {.types = "gemma gemma2 gemma3_text", .tied = true, .head_size = 256},
    {.types = "cohere2 ernie4_5", .tied = true, .head_size = 128},
    {.types = "smollm3", .tied = true},
    {.types = "qwen3 glm glm4 seed_oss", .head_size = 128},
    {.types = "qwen2_moe qwen3_moe", .sparse = Sparse::kStep},
    {.types = "qwen3_next", .head_size = 256, .sparse = Sparse::kStep, .mixer = Mixer::kSomeDelta},
    {.types = "gpt_oss", .head_size = 64},
    {.types = "llama4_text", .head_size = 128, .sparse = Sparse::kInterleave},
    {.types = "mamba falcon_mamba", .tied = true, .mixer = Mixer::kScan},
    {.types = "mamba2", .mixer = Mixer::kScan2},
    {.types = "jamba", .sparse = Sparse::kPeriod, .mixer = Mixer::kSomeScan},
    {.types = "gpt_neox gptj phi", .gated = false},
    {.types = "starcoder2", .gated = false, .tied = true},
    {.types = "falcon bloom", .gated = false, .tied = true},
    {.types = "gpt2 opt gpt_neo gpt_bigcode", .gated = false, .tied = true, .positions = true},
    {.types = "bert roberta distilbert xlm-roberta", .gated = false, .causal = false, .tied = true,
     .positions = true},
};
// Their tokens pass through one of two halves, which cost different FLOPs.
constexpr std::string_view kTwoHalves = "t5 mt5 umt5 bart mbart pegasus marian whisper";

bool is_one_of(std::string_view names, std::string_view name) {
  return std::ranges::any_of(pieces_of(names, ' '), [&](std::string_view other) { return other == name; });
}

const Build* build_of(std::string_view type) {
  const auto* const it = std::ranges::find_if(kBuilds, [&](const Build& b) { return is_one_of(b.types, type); });
  return it == std::end(kBuilds) ? nullptr : it;
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

Amount projections_of(const Members& m, const Build& build, ModelConfig& c) {
  if (m.numbers.contains("kv_lora_rank")) return latent_projections(m, c);
  const int64_t even = build.head_size > 0 ? build.head_size : c.heads > 0 ? c.hidden / c.heads : 0;
  c.key_size = m.number_or({"head_dim"}, even);
  c.value_size = c.key_size;
  const Amount own = Amount(c.heads) * c.key_size, shared = Amount(c.kv_heads) * c.key_size;
  const Amount gate = build.mixer == Mixer::kSomeDelta ? own : 0;
  return Amount(c.hidden) * (own + gate + shared + shared + own);
}

// Products of a layer around its scan, and its other weights.
struct ScanWeights {
  Amount products = 0, others = 0;
};

// A selective scan: a projection to twice the inner size, of that to the scan's inputs, of one of them to time steps,
// and back.
ScanWeights selective_scan(const Members& m, const ModelConfig& c) {
  const int64_t inner = m.number({"intermediate_size"}).value_or(0);
  const Amount expanded = Amount(m.number_or({"expand", "mamba_expand"}, 2)) * c.hidden;
  const Amount width = c.type == "jamba" || inner <= 0 ? expanded : Amount(inner);
  const int64_t state = m.number_or({"state_size", "mamba_d_state"}, 16);
  const int64_t rank = m.number_or({"time_step_rank", "mamba_dt_rank"}, (c.hidden + 15) / 16);
  const int64_t kernel = m.number_or({"conv_kernel", "mamba_d_conv"}, 4);
  return {width * c.hidden * 3 + width * (Amount(rank) * 2 + Amount(state) * 2), width * (Amount(kernel) + state)};
}

// Its second form: one projection to everything, and back.
ScanWeights second_scan(const Members& m, const ModelConfig& c) {
  const Amount width = Amount(m.number_or({"expand"}, 2)) * c.hidden;
  const Amount inputs = Amount(2) * m.number_or({"n_groups"}, 8) * m.number_or({"state_size"}, 128);
  const Amount heads = m.number_or({"num_heads"}, 128);
  return {(width * 2 + inputs + heads) * c.hidden + width * c.hidden,
          (width + inputs) * m.number_or({"conv_kernel"}, 4)};
}

// The gated delta rule: projections to queries, keys, values, a gate and two numbers for each head, and back.
ScanWeights delta_rule(const Members& m, const ModelConfig& c) {
  const Amount heads = m.number_or({"linear_num_value_heads"}, 32);
  const Amount keys = Amount(m.number_or({"linear_num_key_heads"}, 16)) * m.number_or({"linear_key_head_dim"}, 128);
  const Amount values = heads * m.number_or({"linear_value_head_dim"}, 128);
  return {Amount(c.hidden) * (keys * 2 + values * 2 + heads * 2) + values * c.hidden,
          (keys * 2 + values) * m.number_or({"linear_conv_kernel_dim"}, 4)};
}

// How many of the layers `is_one` of.
template <class IsOne>
int64_t layers_where(const ModelConfig& c, IsOne is_one) {
  int64_t count = 0;
  for (int64_t i = 0; i < c.layers; ++i) count += is_one(i);
  return count;
}

// Occurrences of a word in a list's text.
int64_t count_of(std::string_view list, std::string_view word) {
  int64_t count = 0;
  for (size_t at = list.find(word); at != list.npos; at = list.find(word, at + word.size())) ++count;
  return count;
}

int64_t attention_layers_of(const Members& m, const Build& build, const ModelConfig& c) {
  if (build.mixer == Mixer::kScan || build.mixer == Mixer::kScan2) return 0;
  if (build.mixer == Mixer::kAttention) return c.layers;
  if (const std::string_view types = m.list("layer_types"); build.mixer == Mixer::kSomeDelta && !types.empty())
    return std::min(count_of(types, "\"full_attention\""), c.layers);
  const bool delta = build.mixer == Mixer::kSomeDelta;
  const int64_t period = std::max<int64_t>(m.number_or({delta ? "full_attention_interval" : "attn_layer_period"},
                                                       delta ? 4 : 8), 1);
  const int64_t offset = delta ? period - 1 : m.number_or({"attn_layer_offset"}, 4);
  return layers_where(c, [&](int64_t i) { return i % period == offset; });
}

// Models for classification and embeddings end without a product to the vocabulary.
bool ends_in_vocabulary(std::string_view architectures) {
  constexpr std::string_view kHeads[] = {"ForCausalLM", "LMHead", "ForMaskedLM", "ForPreTraining",
                                         "ForConditionalGeneration"};
  return architectures.empty() || contains_any(architectures, kHeads);
}

constexpr int64_t kMostLayers = 100'000, kMostSize = 1'000'000'000, kMostNumber = 1'000'000'000'000'000;

struct Wanted {
  std::string_view what;
  std::initializer_list<std::string_view> names;
  int64_t ModelConfig::*to;
};

std::string lacks(const Members& m, const Build& build, ModelConfig& c) {
  const Wanted wanted[] = {
      {"num_hidden_layers", {"num_hidden_layers", "n_layer", "n_layers", "num_layers"}, &ModelConfig::layers},
      {"hidden_size", {"hidden_size", "n_embd", "dim", "d_model"}, &ModelConfig::hidden},
      {"num_attention_heads", {"num_attention_heads", "n_head", "n_heads", "num_heads"}, &ModelConfig::heads},
      {"vocab_size", {"vocab_size"}, &ModelConfig::vocabulary}};
  for (const Wanted& w : wanted) {
    if (w.to == &ModelConfig::heads && (build.mixer == Mixer::kScan || build.mixer == Mixer::kScan2)) continue;
    const std::optional<int64_t> value = m.number(w.names);
    if (!value) return "it lacks " + std::string(w.what);
    if (*value <= 0) return std::string(w.what) + " is not above 0";
    if (*value > (w.to == &ModelConfig::layers ? kMostLayers : kMostSize)) return std::string(w.what) + " is too large";
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

// `listed`: in order.
bool is_sparse(const Members& m, Sparse rule, const std::vector<int64_t>& listed, int64_t layer) {
  const auto is_listed = [&] { return std::ranges::binary_search(listed, layer); };
  switch (rule) {
    case Sparse::kAll: return layer >= m.number_or({"first_k_dense_replace"}, 0);
    case Sparse::kStep:
      return !is_listed() && (layer + 1) % std::max<int64_t>(m.number_or({"decoder_sparse_step"}, 1), 1) == 0;
    case Sparse::kInterleave:
      if (!listed.empty()) return is_listed();
      return (layer + 1) % std::max<int64_t>(m.number_or({"interleave_moe_layer_step"}, 1), 1) == 0;
    case Sparse::kPeriod:
      return layer % std::max<int64_t>(m.number_or({"expert_layer_period"}, 2), 1) ==
             m.number_or({"expert_layer_offset"}, 1);
  }
  return true;
}

// In order of size.
std::vector<int64_t> whole_numbers(std::string_view list) {
  std::vector<int64_t> numbers;
  for (const std::string_view piece : pieces_of(list.empty() ? list : list.substr(1, list.size() - 2), ','))
    if (const auto number = padded_whole_number(without_blanks(piece))) numbers.push_back(*number);
  std::ranges::sort(numbers);
  return numbers;
}

void set_experts(const Members& m, const Build& build, int64_t feed_forward, ModelConfig& c) {
  const Amount matrices = Amount(build.gated ? 3 : 2) * c.hidden;
  c.dense_weights = (matrices * m.number_or({"intermediate_size_mlp"}, feed_forward)).or_unknown();
  c.experts = m.number_or({"num_local_experts", "n_routed_experts", "num_experts"}, 0);
  c.dense_layers = c.layers;
  if (c.experts <= 0) return;
  c.experts_used = m.number_or({"num_experts_per_tok", "moe_topk"}, 1);
  const int64_t width = m.number_or({"moe_intermediate_size"}, feed_forward);
  c.expert_weights = (matrices * width).or_unknown();
  Amount shared = matrices * width * std::max<int64_t>(m.number_or({"n_shared_experts"}, 0), 0);
  // Qwen's shared expert has a width of its own, and a gate; Llama's is one more.
  if (const auto own = m.number({"shared_expert_intermediate_size"}); own && *own > 0)
    shared = matrices * *own + c.hidden;
  if (c.type == "llama4_text") shared = matrices * width;
  c.shared_weights = shared.or_unknown();
  const std::vector<int64_t> listed =
      whole_numbers(m.list(build.sparse == Sparse::kInterleave ? "moe_layers" : "mlp_only_layers"));
  c.dense_layers = c.layers - layers_where(c, [&](int64_t i) { return is_sparse(m, build.sparse, listed, i); });
}

// Positions, types of tokens, and the product before the last one of BERT and kin.
void set_ends(const Members& m, const Build& build, ModelConfig& c) {
  int64_t rows = 0;
  if (build.positions) rows = m.number_or({"max_position_embeddings", "n_positions"}, 0);
  if (c.type == "opt") rows += 2;   // its first two are for padding
  if (build.causal) {
    c.lookup_weights = (Amount(rows) * c.hidden).or_unknown();
    return;
  }
  if (c.type != "distilbert") rows += m.number_or({"type_vocab_size"}, 2);
  c.lookup_weights = (Amount(rows) * c.hidden).or_unknown();
  if (c.has_head) c.head_products = (Amount(c.hidden) * c.hidden).or_unknown();
}

void set_mixers(const Members& m, const Build& build, ModelConfig& c) {
  c.attention_layers = attention_layers_of(m, build, c);
  if (c.heads > 0) c.projections = projections_of(m, build, c).or_unknown();
  ScanWeights scan;
  if (build.mixer == Mixer::kScan || build.mixer == Mixer::kSomeScan) scan = selective_scan(m, c);
  if (build.mixer == Mixer::kScan2) scan = second_scan(m, c);
  if (build.mixer == Mixer::kSomeDelta) scan = delta_rule(m, c);
  c.scan_products = scan.products.or_unknown(), c.scan_others = scan.others.or_unknown();
}

Result<Members> read_members(std::string text, const std::function<Error(const std::string&)>& wrong) {
  Members m;
  JsonReader in = JsonReader::over(text);
  const bool read = read_object(in, [&](std::string_view key) { return read_member(in, key, m); });
  if (!read || in.peek() != 0) return wrong("not a model's config: no JSON object");
  for (const auto& [name, number] : m.numbers)   // sums of a few of them fit
    if (number > kMostNumber || number < -kMostNumber) return wrong(name + " is too large");
  return m;
}

// Of a model that also sees or hears: what its language model lacks, the whole may say.
void add_whole(const Members& whole, Members& language) {
  for (const char* name : {"tie_word_embeddings"})
    if (const auto it = whole.flags.find(name); it != whole.flags.end()) language.flags.emplace(name, it->second);
  for (const char* name : {"torch_dtype", "dtype"})
    if (const auto it = whole.texts.find(name); it != whole.texts.end()) language.texts.emplace(name, it->second);
  if (const auto it = whole.lists.find("architectures"); it != whole.lists.end())
    language.lists.insert_or_assign("architectures", it->second);
  // Gemma 3's configs leave out what its first size has.
  if (language.text("model_type") != "gemma3_text") return;
  constexpr std::pair<const char*, int64_t> kFirst[] = {
      {"num_attention_heads", 8}, {"num_key_value_heads", 4}, {"vocab_size", 262'208}};
  for (const auto& [name, number] : kFirst) language.numbers.emplace(name, number);
}

std::string wrong_sizes(const ModelConfig& c, int64_t feed_forward, bool blocks) {
  if (c.experts_used > c.experts) return "num_experts_per_tok is more than there are experts";
  if (c.experts > 0 && c.experts_used <= 0) return "num_experts_per_tok is not above 0";
  if ((c.attention_layers > 0 && std::min(c.key_size, c.value_size) <= 0) || (blocks && feed_forward <= 0))
    return "the size of a head or of the feed-forward block is not above 0";
  constexpr double kMost = 1e18;   // any sum of products of sizes stays exact enough
  for (const int64_t n : {c.projections, c.scan_products, c.scan_others, c.dense_weights, c.expert_weights,
                          c.shared_weights, c.lookup_weights})
    if (n < 0 || static_cast<double>(n) > kMost) return "sizes are negative, or too large to multiply";
  return "";
}

}  // namespace

double ModelConfig::parameters() const {
  const auto d = [](int64_t n) { return static_cast<double>(n); };
  const double sparse = d(experts) * d(expert_weights) + d(shared_weights) + d(experts) * d(hidden);
  const double blocks = d(attention_layers) * d(projections) +
                        d(layers - attention_layers) * (d(scan_products) + d(scan_others)) +
                        d(dense_layers) * d(dense_weights) + d(layers - dense_layers) * (experts > 0 ? sparse : 0);
  return blocks + d(vocabulary) * d(hidden) * (tied || !has_head ? 1 : 2) + d(lookup_weights) + d(head_products);
}

double ModelConfig::active_weights() const {
  const auto d = [](int64_t n) { return static_cast<double>(n); };
  const double sparse = d(experts_used) * d(expert_weights) + d(shared_weights) + d(experts) * d(hidden);
  const double blocks = d(attention_layers) * d(projections) + d(layers - attention_layers) * d(scan_products) +
                        d(dense_layers) * d(dense_weights) + d(layers - dense_layers) * (experts > 0 ? sparse : 0);
  return blocks + (has_head ? d(vocabulary) * d(hidden) : 0) + d(head_products);
}

double ModelConfig::flops_of_attention(double keys) const {
  return 2 * static_cast<double>(attention_layers) * static_cast<double>(heads) *
         static_cast<double>(key_size + value_size) * keys;
}

Result<ModelConfig> model_config_from_json(std::string text, std::string_view path) {
  const auto wrong = [&](const std::string& what) {
    return Error{std::string(path) + ": " + what, "give the config.json of a Hugging Face model"};
  };
  auto m = read_members(std::move(text), wrong);
  if (!m) return m.error();
  const bool has_more = !m->text_config.empty();
  if (has_more) {
    auto language = read_members(m->text_config, wrong);
    if (!language) return language.error();
    add_whole(*m, *language);
    m = std::move(language);
  }
  ModelConfig c;
  c.type = m->text("model_type");
  c.has_more = has_more;
  if (c.type.empty()) return wrong("not a model's config: it lacks model_type");
  if (is_one_of(kTwoHalves, c.type))
    return Error{fmt::format("{}: a token of a {} model passes through its encoder or its decoder, so that the FLOPs of a "
                             "token are not known", path, c.type),
                 "record shapes instead: profile(record_shapes=True)"};
  const Build* const build = build_of(c.type);
  if (build == nullptr)
    return Error{std::string(path) + ": models of type \"" + c.type + "\" are not known", "known: " + known_types()};
  if (const std::string what = lacks(*m, *build, c); !what.empty()) return wrong(what);
  c.precision = precision_of_config(*m);
  c.causal = build->causal;
  c.has_head = ends_in_vocabulary(m->list("architectures"));
  c.tied = m->flag_or("tie_word_embeddings", build->tied);
  c.kv_heads = c.heads > 0 ? kv_heads_of(*m, c) : 0;
  if (c.heads > 0 && (c.kv_heads <= 0 || c.heads % c.kv_heads != 0))
    return wrong("num_attention_heads is not a multiple of num_key_value_heads");
  set_mixers(*m, *build, c);
  const bool blocks = build->mixer != Mixer::kScan && build->mixer != Mixer::kScan2;
  const int64_t feed_forward =
      m->number_or({"intermediate_size", "n_inner", "ffn_dim", "hidden_dim", "ffn_hidden_size"}, 4 * c.hidden);
  set_experts(*m, *build, blocks ? feed_forward : 0, c);
  set_ends(*m, *build, c);
  if (const std::string what = wrong_sizes(c, feed_forward, blocks); !what.empty()) return wrong(what);
  return c;
}

}  // namespace profgpu
