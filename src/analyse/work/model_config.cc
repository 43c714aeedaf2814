#include "analyse/work/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
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
  std::set<std::string, std::less<>> nulls;
  std::string text_config;      // an object as it stands; empty: none
  bool has_vision = false;      // an object that describes a part for images

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
    std::string text;
    if (!read_text(in, text)) return false;
    members.texts[std::string(key)] = std::move(text);
    return true;
  }
  if (const char first = in.peek(); first == '{' || first == '[') {
    std::string_view raw;
    if (!in.raw_value(raw)) return false;
    if (first == '[') members.lists[std::string(key)] = raw;
    else if (key == "text_config" || key == "llm_config" || key == "language_config") members.text_config = raw;
    else if (key == "vision_config") members.has_vision = true;
    return true;
  }
  std::string_view token;
  if (!in.scalar(token)) return false;
  if (const auto number = exact_number<int64_t>(token)) members.numbers[std::string(key)] = *number;
  else if (token == "true" || token == "false") members.flags[std::string(key)] = token == "true";
  else if (token == "null") members.nulls.emplace(key);
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

// Which layers' tokens attend to a window of keys, of models that have some.
enum class Windows : uint8_t {
  kNone,
  kAll,
  kAllButEach,   ///< all but each `sliding_window_pattern`-th
  kLast,         ///< with `use_sliding_window`, those from `max_window_layers` on
  kChunks,       ///< all but each fourth, and windows lie side by side
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
  Windows windows = Windows::kNone;
  int64_t window = 0;         ///< unless the config says it; 0: none
  int64_t pattern = 0;        ///< likewise, of kAllButEach
};
// tests/python/test_model_config.py compares these with the models of `transformers`.
constexpr Build kBuilds[] = {
    {.types = "llama olmo olmo2 stablelm granite internlm2 cohere hunyuan_v1_dense olmoe granitemoe deepseek deepseek_v2 "
              "deepseek_v3 kimi_k2 glm4_moe minimax_m2 baichuan chatglm"},
    {.types = "mistral", .windows = Windows::kAll, .window = 4096},
    {.types = "mixtral phi3 phimoe", .windows = Windows::kAll},
    {.types = "qwen2 qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text", .windows = Windows::kLast, .window = 4096},
    {.types = "exaone4", .windows = Windows::kAllButEach, .window = 4096, .pattern = 4},
    {.types = "gemma", .tied = true, .head_size = 256},
    {.types = "gemma2", .tied = true, .head_size = 256, .windows = Windows::kAllButEach, .window = 4096, .pattern = 2},
    {.types = "gemma3_text", .tied = true, .head_size = 256, .windows = Windows::kAllButEach, .window = 4096,
     .pattern = 6},
    {.types = "ernie4_5", .tied = true, .head_size = 128},
    {.types = "cohere2", .tied = true, .head_size = 128, .windows = Windows::kAllButEach, .window = 4096, .pattern = 4},
    {.types = "smollm3", .tied = true},
    {.types = "glm glm4 seed_oss", .head_size = 128},
    {.types = "qwen3 qwen3_vl_text", .head_size = 128, .windows = Windows::kLast, .window = 4096},
    {.types = "qwen2_moe qwen3_moe qwen3_vl_moe_text", .sparse = Sparse::kStep, .windows = Windows::kLast,
     .window = 4096},
    {.types = "qwen3_next", .head_size = 256, .sparse = Sparse::kStep, .mixer = Mixer::kSomeDelta},
    {.types = "gpt_oss", .head_size = 64, .windows = Windows::kAllButEach, .window = 128, .pattern = 2},
    {.types = "llama4_text", .head_size = 128, .sparse = Sparse::kInterleave, .windows = Windows::kChunks,
     .window = 8192, .pattern = 4},
    {.types = "mamba falcon_mamba", .tied = true, .mixer = Mixer::kScan},
    {.types = "mamba2", .mixer = Mixer::kScan2},
    {.types = "jamba", .sparse = Sparse::kPeriod, .mixer = Mixer::kSomeScan},
    {.types = "gpt_neox gptj phi arcee nemotron", .gated = false},
    {.types = "starcoder2", .gated = false, .tied = true, .windows = Windows::kAll},
    {.types = "falcon bloom mpt", .gated = false, .tied = true},
    {.types = "gpt2 opt gpt_neo gpt_bigcode", .gated = false, .tied = true, .positions = true},
    {.types = "bert roberta distilbert xlm-roberta", .gated = false, .causal = false, .tied = true,
     .positions = true},
};
// Their tokens pass through one of two halves, which cost different FLOPs.
constexpr std::string_view kTwoHalves = "t5 mt5 umt5 bart mbart pegasus marian whisper";

bool is_one_of(std::string_view names, std::string_view name) {
  return std::ranges::any_of(pieces_of(names, ' '), [&](std::string_view other) { return other == name; });
}

struct NamedBuild {
  const Build* build = nullptr;
  std::string_view type;   ///< of those in the table
};

template <class IsIt>
NamedBuild find_build(IsIt is_it) {
  for (const Build& build : kBuilds)
    for (const std::string_view type : pieces_of(build.types, ' '))
      if (is_it(type)) return {&build, type};
  return {};
}

// "DeepseekV3ForCausalLM" of ["DeepseekV3ForCausalLM"]: "deepseekv3".
std::string type_in_architecture(std::string_view architectures) {
  const size_t first = architectures.find('"'), end = architectures.find('"', first + 1);
  if (first == architectures.npos || end == architectures.npos) return "";
  const std::string_view name = architectures.substr(first + 1, end - first - 1);
  return lower_case(name.substr(0, std::min(name.find("For"), name.find("LMHead"))));
}

// By its type; of a type that is not known, by its architecture, which is the class that runs it.
NamedBuild build_of(std::string_view type, std::string_view architectures) {
  if (const NamedBuild found = find_build([&](std::string_view other) { return other == type; }); found.build != nullptr)
    return found;
  const std::string wanted = type_in_architecture(architectures);
  return find_build([&](std::string_view other) {
    std::string letters(other);
    std::erase_if(letters, [](char c) { return c == '_' || c == '-'; });
    return letters == wanted;
  });
}

std::string why_unknown(std::string_view type) {
  if (is_one_of(kTwoHalves, type))
    return fmt::format("a token of a {} model passes through its encoder or its decoder, so that the FLOPs of a token are "
                       "not known", type);
  return fmt::format("models of type \"{}\" are not known", type);
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
  c.key_size = m.number_or({"head_dim", "kv_channels"}, even);
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

int64_t layers_with_windows(const Members& m, const Build& build, const ModelConfig& c) {
  if (const std::string_view types = m.list("layer_types"); !types.empty())
    return std::min(count_of(types, build.windows == Windows::kChunks ? "\"chunked_attention\"" : "\"sliding_attention\""),
                    c.layers);
  if (build.windows == Windows::kAll) return c.layers;
  if (build.windows == Windows::kLast)
    return std::max<int64_t>(c.layers - std::max<int64_t>(m.number_or({"max_window_layers"}, 28), 0), 0);
  // "LLLG": as many, the last of which sees everything.
  const auto letters = static_cast<int64_t>(m.text("sliding_window_pattern").size());
  const int64_t pattern =
      m.number_or({"sliding_window_pattern", "_sliding_window_pattern"}, letters > 0 ? letters : build.pattern);
  return pattern > 0 ? c.layers - c.layers / pattern : c.layers;
}

void set_windows(const Members& m, const Build& build, ModelConfig& c) {
  const std::string_view name = build.windows == Windows::kChunks ? "attention_chunk_size" : "sliding_window";
  if (build.windows == Windows::kNone || m.nulls.contains(name)) return;
  if (!m.flag_or("use_sliding_window", build.windows != Windows::kLast)) return;
  c.window = std::max<int64_t>(m.number_or({name}, build.window), 0);
  if (c.window == 0) return;
  c.windowed_layers = layers_with_windows(m, build, c);
  c.chunked = build.windows == Windows::kChunks;
}

// Models for classification and embeddings end without a product to the vocabulary.
bool ends_in_vocabulary(std::string_view architectures) {
  constexpr std::string_view kHeads[] = {"ForCausalLM", "LMHead", "ForMaskedLM", "ForPreTraining",
                                         "ForConditionalGeneration"};
  return architectures.empty() || contains_any(architectures, kHeads);
}

constexpr int64_t kMostLayers = 100'000, kMostSize = 1'000'000'000, kMostNumber = 1'000'000'000'000'000;

constexpr std::string_view kLacks = "it lacks ";

struct Wanted {
  std::string_view what;
  std::initializer_list<std::string_view> names;
  int64_t ModelConfig::*to;
};

std::string set_sizes(const Members& m, const Build& build, ModelConfig& c) {
  const Wanted wanted[] = {
      {"num_hidden_layers", {"num_hidden_layers", "n_layer", "n_layers", "num_layers"}, &ModelConfig::layers},
      {"hidden_size", {"hidden_size", "n_embd", "dim", "d_model"}, &ModelConfig::hidden},
      {"num_attention_heads", {"num_attention_heads", "n_head", "n_heads", "num_heads"}, &ModelConfig::heads},
      {"vocab_size", {"vocab_size", "padded_vocab_size"}, &ModelConfig::vocabulary}};
  for (const Wanted& w : wanted) {
    if (w.to == &ModelConfig::heads && (build.mixer == Mixer::kScan || build.mixer == Mixer::kScan2)) continue;
    const std::optional<int64_t> value = m.number(w.names);
    if (!value) return std::string(kLacks) + std::string(w.what);
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
  if (c.type == "chatglm" && m.flag_or("multi_query_attention", false))
    return m.number_or({"multi_query_group_num"}, 1);
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
  // They leave out what the first size of their type has.
  struct First {
    std::string_view type;
    const char* name;
    int64_t number;
  };
  constexpr First kFirst[] = {
      {"gemma3_text", "num_attention_heads", 8}, {"gemma3_text", "num_key_value_heads", 4},
      {"gemma3_text", "vocab_size", 262'208},    {"llama", "vocab_size", 32'000},
      {"llama", "hidden_size", 4096},            {"llama", "intermediate_size", 11'008},
      {"llama", "num_hidden_layers", 32},        {"llama", "num_attention_heads", 32},
      {"mistral", "vocab_size", 32'000},         {"mistral", "hidden_size", 4096},
      {"mistral", "intermediate_size", 14'336},  {"mistral", "num_hidden_layers", 32},
      {"mistral", "num_attention_heads", 32},    {"mistral", "num_key_value_heads", 8}};
  for (const auto& [type, name, number] : kFirst)
    if (language.text("model_type") == type) language.numbers.emplace(name, number);
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
  return blocks + head_weights();
}

double ModelConfig::head_weights() const {
  return (has_head ? static_cast<double>(vocabulary) * static_cast<double>(hidden) : 0) +
         static_cast<double>(head_products);
}

double ModelConfig::flops_of_attention(double keys, double windowed_keys) const {
  const auto windowed = static_cast<double>(windowed_layers);
  return 2 * static_cast<double>(heads) * static_cast<double>(key_size + value_size) *
         ((static_cast<double>(attention_layers) - windowed) * keys + windowed * windowed_keys);
}

double ModelConfig::windowed_keys_of(double sequence_length) const {
  const auto w = static_cast<double>(window);
  if (windowed_layers == 0 || sequence_length <= w || !causal) return keys_of(sequence_length);
  const double first = w * (w + 1) / 2;   // of the tokens of one window
  if (!chunked) return (first + (sequence_length - w) * w) / sequence_length;
  const double whole = std::floor(sequence_length / w), rest = sequence_length - whole * w;
  return (whole * first + rest * (rest + 1) / 2) / sequence_length;
}

Result<ModelConfig> model_config_from_json(std::string text, std::string_view path) {
  const auto wrong = [&](const std::string& what) {
    return Error{std::string(path) + ": " + what, "give the config.json of a Hugging Face model"};
  };
  auto m = read_members(std::move(text), wrong);
  if (!m) return m.error();
  const bool nested = !m->text_config.empty();
  const bool has_more = !m->text_config.empty() || m->has_vision;
  if (!m->text_config.empty()) {
    auto language = read_members(m->text_config, wrong);
    if (!language) return language.error();
    add_whole(*m, *language);
    m = std::move(language);
  }
  ModelConfig c;
  c.type = m->text("model_type");
  c.has_more = has_more;
  if (c.type.empty()) return wrong("not a model's config: it lacks model_type");
  const auto [build, known_type] = build_of(c.type, m->list("architectures"));
  if (build == nullptr) {
    c.unknown = why_unknown(c.type);
    return c;
  }
  const std::string named = std::exchange(c.type, known_type);
  if (const std::string what = set_sizes(*m, *build, c); !what.empty()) {
    if (!nested || !what.starts_with(kLacks)) return wrong(what);
    // Its library knows the sizes that its own config leaves out.
    ModelConfig unknown;
    unknown.type = named, unknown.has_more = true;
    unknown.unknown = fmt::format("the config of its {} model {}", named, what.substr(3));
    return unknown;
  }
  c.precision = precision_of_config(*m);
  c.causal = build->causal;
  c.has_head = ends_in_vocabulary(m->list("architectures"));
  c.tied = m->flag_or("tie_word_embeddings", build->tied);
  c.kv_heads = c.heads > 0 ? kv_heads_of(*m, c) : 0;
  if (c.heads > 0 && (c.kv_heads <= 0 || c.heads % c.kv_heads != 0))
    return wrong("num_attention_heads is not a multiple of num_key_value_heads");
  set_mixers(*m, *build, c);
  set_windows(*m, *build, c);
  const bool blocks = build->mixer != Mixer::kScan && build->mixer != Mixer::kScan2;
  const int64_t feed_forward =
      m->number_or({"intermediate_size", "n_inner", "ffn_dim", "hidden_dim", "ffn_hidden_size"}, 4 * c.hidden);
  set_experts(*m, *build, blocks ? feed_forward : 0, c);
  set_ends(*m, *build, c);
  if (const std::string what = wrong_sizes(c, feed_forward, blocks); !what.empty()) return wrong(what);
  c.type = named;
  return c;
}

}  // namespace profgpu
