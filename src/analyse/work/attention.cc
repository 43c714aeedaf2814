// Attention in one operator, forward and backward: scores (query by key) and their sum (scores by value); backward,
// the scores again and four products of gradients.
#include <algorithm>
#include <array>

#include "analyse/work/op_sizes.h"

namespace profgpu {
namespace {

enum class Layout : uint8_t {
  kHeadsFirst,     ///< [batch, heads, sequence, size]
  kSequenceFirst,  ///< [batch, sequence, heads, size]; [tokens, heads, size] where sequences lie one after the other
};

enum class Mask : uint8_t { kNone, kTopLeft, kBottomRight };

struct AttentionPlaces {
  Layout layout = Layout::kHeadsFirst;
  size_t query = 0;           ///< key and value follow
  bool backward = false;
  size_t causal = 99;         ///< a flag; of the efficient form a number: 1 from the top left, 2 from the bottom right
  Mask mask = Mask::kTopLeft; ///< what the flag means
  size_t ends = 99;           ///< cumulative lengths of the queries' sequences, those of the keys follow
  size_t longest = 99;        ///< of the queries' sequences, that of the keys follows; 99: behind these
  size_t window = 99;         ///< of sliding windows: keys that a query sees before its own; those behind it follow
  /// What says how many keys there are in a tensor: the pages of a cache, lengths of its sequences, keys to be added.
  std::array<size_t, 3> in_tensors = {99, 99, 99};
};

struct Heads {
  int64_t batch = 1, heads = 0, queries = 0, keys = 0, key_size = 0, value_size = 0;
  bool lower_bound = false;
};

/// Keys that a query sees before and behind its own; negative: all.
struct Window {
  int64_t before = -1, behind = -1;
};

// Over all queries i, the keys before key i + end.
int64_t keys_before(const Heads& h, int64_t end) {
  const int64_t q = h.queries, k = h.keys;
  const int64_t first = std::clamp<int64_t>(-end, 0, q);          // queries before it have none
  const int64_t all = std::clamp<int64_t>(k - end, first, q);     // from it on they have all
  return (all - first) * (first + end + all - 1 + end) / 2 + (q - all) * k;
}

// Pairs of a query and a key that a mask or a window leaves out.
Amount masked_pairs(const Heads& h, Mask mask, Window window) {
  if (mask != Mask::kNone) window.behind = 0;
  if (window.before < 0 && window.behind < 0) return 0;
  constexpr int64_t kMost = int64_t{1} << 30;
  if (std::max({h.queries, h.keys, window.before, window.behind}) > kMost) return Amount::unknown();
  // A query's own key is i + shift.
  const int64_t shift = mask == Mask::kTopLeft ? 0 : h.keys - h.queries;
  const int64_t up_to = window.behind < 0 ? h.queries * h.keys : keys_before(h, shift + window.behind + 1);
  const int64_t below = window.before < 0 ? 0 : keys_before(h, shift - window.before);
  return Amount(h.queries) * h.keys - (up_to - below);
}

std::optional<Heads> dense(const OpInputs& in, const AttentionPlaces& at) {
  const auto &q = in[at.query].shape, &k = in[at.query + 1].shape, &v = in[at.query + 2].shape;
  if (q.size() != 4 || k.size() != 4 || v.size() != 4) return std::nullopt;
  const size_t heads = at.layout == Layout::kHeadsFirst ? 1 : 2, sequence = 3 - heads;
  if (q[0] != k[0] || q[3] != k[3] || k[sequence] != v[sequence] || k[heads] != v[heads]) return std::nullopt;
  if (k[heads] < 1 || q[heads] % k[heads] != 0) return std::nullopt;
  return Heads{q[0], q[heads], q[sequence], k[sequence], q[3], v[3], false};
}

// Whether sequences are all of one length: the longest is their mean.
bool are_alike(const OpInputs& in, const AttentionPlaces& at, int64_t sequences, int64_t queries, int64_t keys) {
  const auto is_mean = [&](size_t place, int64_t tokens) {
    const auto longest = place < in.at.size() ? whole_value(in[place]) : std::nullopt;
    return longest && tokens % sequences == 0 && *longest == tokens / sequences;
  };
  const size_t longest = at.longest < in.at.size() ? at.longest : at.ends + 2;
  return is_mean(longest, queries) && is_mean(longest + 1, keys);
}

// Sequences one after the other. If the trace has only how many there are, lengths that are all the same make the least
// of pairs. `tokens` and heads are the last three dimensions but one.
std::optional<Heads> one_after_the_other(const OpInputs& in, const AttentionPlaces& at) {
  const auto &q = in[at.query].shape, &k = in[at.query + 1].shape, &v = in[at.query + 2].shape;
  const auto& ends = in[at.ends].shape;
  const size_t n = q.size();
  if (ends.size() != 1 || ends[0] < 2 || n < 3 || k.size() != n || v.size() != n) return std::nullopt;
  if (n == 4 && (q[0] != 1 || k[0] != 1)) return std::nullopt;
  const int64_t sequences = ends[0] - 1, queries = q[n - 3], keys = k[n - 3];
  // Keys of sequences of other lengths than the queries': any pairing is possible.
  const bool alike = sequences == 1 || are_alike(in, at, sequences, queries, keys);
  if (!alike && queries != keys) return std::nullopt;
  if (k[n - 2] < 1 || q[n - 2] % k[n - 2] != 0 || q[n - 1] != k[n - 1]) return std::nullopt;
  return Heads{sequences,          q[n - 2],     queries / sequences, keys / sequences, q[n - 1], v[n - 1],
               !alike};
}

Mask mask_of(const OpInputs& in, const AttentionPlaces& at) {
  if (at.mask == Mask::kNone) {   // the efficient form's number
    const int64_t type = whole_value(in[at.causal]).value_or(0);
    return type == 1 ? Mask::kTopLeft : type == 2 ? Mask::kBottomRight : Mask::kNone;
  }
  return flag_value(in[at.causal]).value_or(false) ? at.mask : Mask::kNone;
}

Window window_of(const OpInputs& in, const AttentionPlaces& at) {
  if (at.window + 1 >= in.at.size()) return {};
  return {whole_value(in[at.window]).value_or(-1), whole_value(in[at.window + 1]).value_or(-1)};
}

template <AttentionPlaces At>
OpWork attention(const OpInputs& in) {
  for (const size_t place : At.in_tensors)
    if (!in[place].shape.empty()) return {};
  const bool ends = At.ends < in.at.size() && !in[At.ends].shape.empty();
  const auto h = ends ? one_after_the_other(in, At) : dense(in, At);
  if (!h) return {};
  const Amount each = Amount(At.backward ? 3 : 1) * h->key_size + Amount(At.backward ? 2 : 1) * h->value_size;
  const Amount heads = Amount(h->batch) * h->heads;
  // Query, key and value once, and the result, which has the query's size with the value's width; backward also its
  // gradient, and those of the three.
  const Amount inputs = bytes_of(in, At.query, At.query + 3);
  const Amount gradients = bytes_like(in, At.query) + bytes_like(in, At.query + 1) + bytes_like(in, At.query + 2);
  const Amount result = bytes_of(heads * h->queries * h->value_size, in[At.query].element_bits());
  OpWork work = multiplying(heads * h->queries * h->keys * each,
                            At.backward ? inputs + gradients + result * 2 : inputs + result, in[At.query]);
  const int64_t skipped = (heads * masked_pairs(*h, mask_of(in, At), window_of(in, At)) * each * 2).or_unknown();
  work.skipped_flops = std::clamp<int64_t>(skipped, 0, std::max<int64_t>(work.flops, 0));
  work.lower_bound = h->lower_bound;
  if (work.flops > 0) work.attention = {h->key_size, h->queries, h->keys};
  return work;
}

// How a tensor of keys has those of a token.
enum class Slots : uint8_t {
  kRow,     ///< in each row: new tokens, or a cache's slots
  kLast,    ///< in the last two dimensions, heads and size: [pages, slots, heads, size]
  kPages,   ///< in a part of a row, a page of as many slots as a value says: [pages, heads, size / x, slots, x]
  kLatent,  ///< in the last dimension, a vector of which all heads' keys and values are made: [pages, slots, 1, size]
};

// Engines' own, over caches: where query, keys and values are.
struct CachedPlaces {
  std::string_view name;       // one that ends with * is a prefix
  size_t query, key, value;
  Slots slots = Slots::kRow;
  size_t page_size = 99;       // of kPages; where there is no number, the next one
};
// vLLM's and SGLang's (query, key, value, output, ...); SGLang's ragged one (out, workspace, query, key cache, value
// cache, ...), which its profiler's names number; FlashAttention 3 and 2 as engines build them (their
// flash_api_torch_lib.cpp, sgl-kernel's flash_extension.cc); vLLM's own for pages (its torch_bindings.cpp, and that of
// ROCm, to which query_start_loc was added before the size of a page).
constexpr CachedPlaces kCached[] = {
    {"vllm::unified_attention*", 0, 1, 2},
    {"sglang::unified_attention_with_output", 0, 1, 2},
    {"sglang_profiler::attention_paged_attention_ragged_*", 2, 3, 4},
    {"_vllm_fa3_C::fwd", 0, 1, 2, Slots::kLast},
    {"sgl_kernel::fwd", 0, 1, 2, Slots::kLast},
    {"flash_attn_3::fwd", 0, 1, 2, Slots::kLast},
    {"_vllm_fa2_C::varlen_fwd", 0, 1, 2, Slots::kLast},
    {"_vllm_fa2_C::fwd_kvcache", 0, 1, 2, Slots::kLast},
    {"aiter::mha_batch_prefill", 0, 1, 2, Slots::kLast},
    {"_C::paged_attention_v1", 1, 2, 3, Slots::kPages, 8},
    {"_C::paged_attention_v2", 4, 5, 6, Slots::kPages, 11},
    {"_rocm_C::paged_attention", 4, 5, 6, Slots::kPages, 11},
    // FlashMLA: (query, cache, in some versions values, the size of a head's values, ...).
    {"_flashmla_C::fwd_kvcache_mla", 0, 1, 1, Slots::kLatent},
    {"sgl_kernel::fwd_kvcache_mla", 0, 1, 1, Slots::kLatent},
};

const CachedPlaces* cached_places(std::string_view op) {
  const auto* const it = std::ranges::find_if(kCached, [&](const CachedPlaces& c) {
    return c.name.ends_with('*') ? op.starts_with(c.name.substr(0, c.name.size() - 1)) : op == c.name;
  });
  return it == std::end(kCached) ? nullptr : it;
}

// Elements that a token's keys, or its values, have in the tensor at `place`.
Amount slot_of(const OpInputs& in, const CachedPlaces& at, size_t place) {
  const std::vector<int64_t>& shape = in[place].shape;
  if (shape.size() < 2) return Amount::unknown();
  if (at.slots == Slots::kLast)   // with more dimensions, a page is split for vectors
    return shape.size() > 4 ? Amount::unknown() : Amount(shape[shape.size() - 2]) * shape.back();
  const Amount row = product_after(shape, 1);
  if (at.slots == Slots::kRow) return row;
  const auto first = whole_value(in[at.page_size]), next = whole_value(in[at.page_size + 1]);
  return row / (first ? *first : next.value_or(0));
}

// Single tokens of latent attention: a head's query is as long as the cache's vectors, and the first part of these is
// its value. In a step that also has prompts, these have other operators; how many keys are which ones' is not known,
// nor is it of a selection of keys (indices, the eleventh input).
OpWork latent_attention(const OpInputs& in, const AttendedKeys& attended) {
  const std::vector<int64_t>&query = in[0].shape, &cache = in[1].shape;
  if (query.size() < 3 || cache.size() < 2 || query.back() != cache.back() || !in[10].shape.empty()) return {};
  const auto first = whole_value(in[2]);
  const int64_t size = query.back(), value = first ? *first : whole_value(in[3]).value_or(0);
  const int64_t heads = query[query.size() - 2];
  const int64_t tokens = product_of(std::span(query).first(query.size() - 2)).or_unknown();
  if (value <= 0 || value > size || tokens < attended.tokens) return {};
  const Amount each = (Amount(size) + value) * heads;
  const Amount moved = bytes_of(in, 0) + bytes_of(Amount(tokens) * heads * value, in[0].element_bits()) +
                       bytes_of(Amount(attended.keys) * size, in[1].element_bits());
  OpWork work = multiplying(each * attended.pairs, moved, in[0]);
  work.skipped_flops = std::clamp<int64_t>((each * attended.masked_pairs * 2).or_unknown(), 0,
                                           std::max<int64_t>(work.flops, 0));
  return work;
}

OpWork only_with_steps(const OpInputs&) { return {}; }

// Lengths of sequences and a window follow the first arguments, in one place or the next by version.
OpWork xformers_efficient(const OpInputs& in) {
  for (size_t place = 11; place <= 13; ++place)
    if (!in[place].shape.empty() || whole_value(in[place]).value_or(0) > 0) return {};
  return attention<{.layout = Layout::kSequenceFirst, .causal = 9, .mask = Mask::kNone, .ends = 4}>(in);
}

bool is_flag(const OpInput& input) { return input.value == "True" || input.value == "False"; }

// Where the mask's flag is tells which version it is.
template <AttentionPlaces First, AttentionPlaces Second>
OpWork of_either_version(const OpInputs& in) {
  if (is_flag(in[First.causal])) return attention<First>(in);
  return is_flag(in[Second.causal]) ? attention<Second>(in) : OpWork();
}

template <AttentionPlaces At>
OpWork only_with_flag(const OpInputs& in) {
  return is_flag(in[At.causal]) ? attention<At>(in) : OpWork();
}

// AITER's, of which later versions have the least length of a query's sequence as well, and a bias's gradient (its
// ops/mha.py).
constexpr AttentionPlaces kAiterVarlen = {.layout = Layout::kSequenceFirst, .causal = 10, .mask = Mask::kBottomRight,
                                          .ends = 3, .window = 11};
constexpr AttentionPlaces kAiterVarlenWithLeast = {.layout = Layout::kSequenceFirst, .causal = 12,
                                                   .mask = Mask::kBottomRight, .ends = 3, .window = 13};
constexpr AttentionPlaces kAiterBackward = {.layout = Layout::kSequenceFirst, .query = 1, .backward = true, .causal = 11,
                                            .mask = Mask::kBottomRight, .window = 12};
constexpr AttentionPlaces kAiterBackwardWithBias = {.layout = Layout::kSequenceFirst, .query = 1, .backward = true,
                                                    .causal = 12, .mask = Mask::kBottomRight, .window = 13};
constexpr AttentionPlaces kSageSequenceFirst = {.layout = Layout::kSequenceFirst};
constexpr AttentionPlaces kSageHeadsFirst = {.layout = Layout::kHeadsFirst};

// AITER's SageAttention: query, key and value in either layout, whose name is one of the values; without it, no model
// has so many heads as the longer dimension. Scores are of 8 bits and their sum is not, so that no rate limits both.
OpWork sage_attention(const OpInputs& in) {
  constexpr int64_t kMostHeads = 256;
  const std::vector<int64_t>& q = in[0].shape;
  if (q.size() != 4) return {};
  const auto is_called = [&](std::string_view layout) {
    return std::ranges::any_of(in.at, [&](const OpInput& input) { return input.value == layout; });
  };
  const bool named = is_called("bhsd") || is_called("bshd");
  if (!named && std::max(q[1], q[2]) <= kMostHeads) return {};
  const bool heads_first = named ? is_called("bhsd") : q[1] < q[2];
  OpWork work = heads_first ? attention<kSageHeadsFirst>(in) : attention<kSageSequenceFirst>(in);
  const auto flag = std::ranges::find_if(in.at, is_flag);   // the mask's is the first
  if (flag != in.at.end() && flag->value == "True") return {};
  work.precision = Precision::kUnknown;
  return work;
}

// The autograd function of flash-attn before 2.6.
constexpr AttentionPlaces kFlashFunction = {.layout = Layout::kSequenceFirst, .causal = 5, .mask = Mask::kBottomRight};

constexpr OpForm kAttentionForms[] = {
    {"aten::_scaled_dot_product_flash_attention", attention<{.causal = 4, .mask = Mask::kBottomRight}>},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", attention<{.causal = 4}>},
    {"aten::_scaled_dot_product_efficient_attention aten::_scaled_dot_product_cudnn_attention",
     attention<{.causal = 6}>},
    {"aten::_scaled_dot_product_fused_attention_overrideable", attention<{.causal = 5}>},
    {"aten::_flash_attention_forward",
     attention<{.layout = Layout::kSequenceFirst, .causal = 8, .mask = Mask::kBottomRight, .ends = 3, .window = 11}>},
    {"aten::_efficient_attention_forward",
     attention<{.layout = Layout::kSequenceFirst, .causal = 9, .mask = Mask::kNone, .ends = 4}>},
    {"aten::_cudnn_attention_forward", attention<{.causal = 10, .ends = 4}>},
    {"aten::_scaled_dot_product_flash_attention_backward",
     attention<{.query = 1, .backward = true, .causal = 11, .mask = Mask::kBottomRight}>},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
     attention<{.query = 1, .backward = true, .causal = 7}>},
    {"aten::_scaled_dot_product_efficient_attention_backward",
     attention<{.query = 1, .backward = true, .causal = 11}>},
    {"aten::_scaled_dot_product_cudnn_attention_backward aten::_cudnn_attention_backward",
     attention<{.query = 1, .backward = true, .causal = 14}>},
    {"aten::_scaled_dot_product_fused_attention_overrideable_backward",
     attention<{.query = 1, .backward = true, .causal = 13}>},
    {"aten::_flash_attention_backward",
     attention<{.layout = Layout::kSequenceFirst, .query = 1, .backward = true, .causal = 11,
                .mask = Mask::kBottomRight, .ends = 6, .window = 15}>},
    {"aten::_efficient_attention_backward xformers::efficient_attention_backward_cutlass",
     attention<{.layout = Layout::kSequenceFirst, .query = 1, .backward = true, .causal = 14, .mask = Mask::kNone,
                .ends = 6}>},
    // The flash-attn package and AITER.
    {"flash_attn::_flash_attn_forward aiter::mha_fwd aiter::fmha_v3_fwd aiter::_flash_attn_forward",
     attention<{.layout = Layout::kSequenceFirst, .causal = 5, .mask = Mask::kBottomRight, .window = 6}>},
    {"flash_attn::_flash_attn_varlen_forward",
     attention<{.layout = Layout::kSequenceFirst, .causal = 9, .mask = Mask::kBottomRight, .ends = 3, .window = 10}>},
    {"flash_attn::_flash_attn_backward",
     attention<{.layout = Layout::kSequenceFirst, .query = 1, .backward = true, .causal = 11,
                .mask = Mask::kBottomRight, .window = 12}>},
    {"flash_attn::_flash_attn_varlen_backward",
     attention<{.layout = Layout::kSequenceFirst, .query = 1, .backward = true, .causal = 15,
                .mask = Mask::kBottomRight, .ends = 9, .window = 16}>},
    // FlashAttention 3: a table of pages, lengths and new keys say how many keys there are; and 2 as vLLM builds it.
    {"_vllm_fa3_C::fwd sgl_kernel::fwd flash_attn_3::fwd flash_attn_3::_flash_attn_forward",
     attention<{.layout = Layout::kSequenceFirst, .causal = 24, .mask = Mask::kBottomRight, .ends = 7, .longest = 12,
                .window = 25, .in_tensors = {3, 11, 14}}>},
    {"flash_attn_3::bwd",
     attention<{.layout = Layout::kSequenceFirst, .query = 1, .backward = true, .causal = 16,
                .mask = Mask::kBottomRight, .ends = 9, .longest = 13, .window = 17, .in_tensors = {11, 12, 99}}>},
    {"flash_attn_3::_flash_attn_backward",
     attention<{.layout = Layout::kSequenceFirst, .query = 1, .backward = true, .causal = 16,
                .mask = Mask::kBottomRight, .ends = 6, .longest = 10, .window = 17, .in_tensors = {8, 9, 99}}>},
    {"_vllm_fa2_C::varlen_fwd",
     attention<{.layout = Layout::kSequenceFirst, .causal = 15, .mask = Mask::kBottomRight, .ends = 4, .longest = 10,
                .window = 16, .in_tensors = {6, 8, 99}}>},
    {"xformers_flash::flash_fwd",
     attention<{.layout = Layout::kSequenceFirst, .causal = 10, .mask = Mask::kBottomRight, .ends = 3, .window = 11,
                .in_tensors = {5, 14, 99}}>},
    {"xformers_flash::flash_bwd",
     attention<{.layout = Layout::kSequenceFirst, .query = 2, .backward = true, .causal = 13,
                .mask = Mask::kBottomRight, .ends = 7, .window = 14}>},
    {"xformers::efficient_attention_forward_cutlass", xformers_efficient},
    {"aiter::mha_bwd aiter::fmha_v3_bwd",
     attention<{.layout = Layout::kSequenceFirst, .query = 1, .backward = true, .causal = 8,
                .mask = Mask::kBottomRight, .window = 9}>},
    {"aiter::mha_varlen_fwd aiter::fmha_v3_varlen_fwd", of_either_version<kAiterVarlen, kAiterVarlenWithLeast>},
    {"aiter::mha_varlen_bwd aiter::fmha_v3_varlen_bwd",
     attention<{.layout = Layout::kSequenceFirst, .query = 1, .backward = true, .causal = 13,
                .mask = Mask::kBottomRight, .ends = 6, .window = 14}>},
    {"aiter::_flash_attn_backward", of_either_version<kAiterBackward, kAiterBackwardWithBias>},
    {"FlashAttnFunc", only_with_flag<kFlashFunction>},
    {"_FAv3SageWrapperFunc", sage_attention},
    // Latent attention runs other products for prompts than for single tokens.
    {"vllm::unified_mla_attention vllm::unified_mla_attention_with_output", only_with_steps},
    {"_vllm_fa2_C::fwd_kvcache _C::paged_attention_v1 _C::paged_attention_v2 _rocm_C::paged_attention "
     "aiter::mha_batch_prefill _flashmla_C::fwd_kvcache_mla sgl_kernel::fwd_kvcache_mla",
     only_with_steps},
    {"vllm::unified_attention* sglang::unified_attention_with_output sglang_profiler::attention_paged_attention_ragged_*",
     only_with_steps},
};

}  // namespace

bool attends_to_cache(std::string_view op) { return cached_places(op) != nullptr; }

OpWork cached_attention(const OpInputs& in, const AttendedKeys& attended) {
  const CachedPlaces* const at = cached_places(in.name);
  if (at == nullptr || in[at->query].shape.size() < 2) return {};
  if (at->slots == Slots::kLatent) return latent_attention(in, attended);
  // A query of all heads, of one token; a key and a value of one slot.
  const std::vector<int64_t>& queries = in[at->query].shape;
  const Amount query = at->slots == Slots::kLast ? Amount(queries[queries.size() - 2]) * queries.back()
                                                 : product_after(queries, 1);
  const Amount slot = slot_of(in, *at, at->key) + slot_of(in, *at, at->value);
  if (slot.or_unknown() <= 0) return {};
  const int bits = in[at->query].element_bits();
  const Amount moved = bytes_of(in, at->query) + bytes_like(in, at->query) +
                       bytes_of(slot * attended.keys, in[at->key].element_bits());
  OpWork work = multiplying(query * attended.pairs * 2, moved, in[at->query]);
  work.skipped_flops = std::clamp<int64_t>((query * attended.masked_pairs * 4).or_unknown(), 0,
                                           std::max<int64_t>(work.flops, 0));
  return bits > 0 ? work : OpWork();
}

extern const OpFamily kAttention = {"attention", kAttentionForms};

}  // namespace profgpu
