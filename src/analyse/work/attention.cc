// Attention in one operator, forward and backward: scores (query by key) and their sum (scores by value); backward,
// the scores again and four products of gradients.
#include <algorithm>

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
  size_t window = 99;         ///< of sliding windows: keys that a query sees before its own; those behind it follow
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

// Sequences one after the other. Only how many there are is in the trace: lengths that are all the same make the least
// of pairs. `tokens` and heads are the last three dimensions but one.
std::optional<Heads> one_after_the_other(const OpInputs& in, const AttentionPlaces& at) {
  const auto &q = in[at.query].shape, &k = in[at.query + 1].shape, &v = in[at.query + 2].shape;
  const auto& ends = in[at.ends].shape;
  const size_t n = q.size();
  if (ends.size() != 1 || ends[0] < 2 || n < 3 || k.size() != n || v.size() != n) return std::nullopt;
  if (n == 4 && (q[0] != 1 || k[0] != 1)) return std::nullopt;
  const int64_t sequences = ends[0] - 1, queries = q[n - 3], keys = k[n - 3];
  // Keys of sequences of other lengths than the queries': any pairing is possible.
  if (sequences > 1 && queries != keys) return std::nullopt;
  if (k[n - 2] < 1 || q[n - 2] % k[n - 2] != 0 || q[n - 1] != k[n - 1]) return std::nullopt;
  return Heads{sequences,          q[n - 2],     queries / sequences, keys / sequences, q[n - 1], v[n - 1],
               sequences > 1};
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
  const bool ends = At.ends < in.at.size() && !in[At.ends].shape.empty();
  const auto h = ends ? one_after_the_other(in, At) : dense(in, At);
  if (!h) return {};
  const Amount each = Amount(At.backward ? 3 : 1) * h->key_size + Amount(At.backward ? 2 : 1) * h->value_size;
  const Amount heads = Amount(h->batch) * h->heads;
  // Query, key and value once, and the result, which has the query's size with the value's width; backward also its
  // gradient, and those of the three.
  const Amount inputs = bytes_of(in, At.query, At.query + 3);
  const Amount result = bytes_of(heads * h->queries * h->value_size, in[At.query].element_bits());
  OpWork work = multiplying(heads * h->queries * h->keys * each, At.backward ? (inputs + result) * 2 : inputs + result,
                            in[At.query]);
  const int64_t skipped = (heads * masked_pairs(*h, mask_of(in, At), window_of(in, At)) * each * 2).or_unknown();
  work.skipped_flops = std::clamp<int64_t>(skipped, 0, std::max<int64_t>(work.flops, 0));
  work.lower_bound = h->lower_bound;
  return work;
}

// Engines' own, over caches: where query, keys and values are. Of a new token's keys each has one row, of a cache one
// for each slot.
struct CachedPlaces {
  std::string_view name;
  size_t query, key, value;
};
// vLLM's and SGLang's (query, key, value, output, ...); SGLang's ragged one (out, workspace, query, key cache, value
// cache, ...), which its profiler's names number.
constexpr CachedPlaces kCached[] = {
    {"vllm::unified_attention", 0, 1, 2},
    {"sglang::unified_attention_with_output", 0, 1, 2},
    {"sglang_profiler::attention_paged_attention_ragged_", 2, 3, 4},
};

const CachedPlaces* cached_places(std::string_view op) {
  const auto* const it = std::ranges::find_if(kCached, [&](const CachedPlaces& c) { return op.starts_with(c.name); });
  return it == std::end(kCached) ? nullptr : it;
}

OpWork only_with_steps(const OpInputs&) { return {}; }

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
    {"aten::_efficient_attention_backward",
     attention<{.layout = Layout::kSequenceFirst, .query = 1, .backward = true, .causal = 14, .mask = Mask::kNone,
                .ends = 6}>},
    // The flash-attn package and AITER.
    {"flash_attn::_flash_attn_forward aiter::mha_fwd",
     attention<{.layout = Layout::kSequenceFirst, .causal = 5, .mask = Mask::kBottomRight, .window = 6}>},
    {"flash_attn::_flash_attn_varlen_forward",
     attention<{.layout = Layout::kSequenceFirst, .causal = 9, .mask = Mask::kBottomRight, .ends = 3, .window = 10}>},
    {"flash_attn::_flash_attn_backward",
     attention<{.layout = Layout::kSequenceFirst, .query = 1, .backward = true, .causal = 11,
                .mask = Mask::kBottomRight, .window = 12}>},
    {"flash_attn::_flash_attn_varlen_backward",
     attention<{.layout = Layout::kSequenceFirst, .query = 1, .backward = true, .causal = 15,
                .mask = Mask::kBottomRight, .ends = 9, .window = 16}>},
    {"vllm::unified_attention* sglang::unified_attention_with_output sglang_profiler::attention_paged_attention_ragged_*",
     only_with_steps},
};

}  // namespace

bool attends_to_cache(std::string_view op) { return cached_places(op) != nullptr; }

OpWork cached_attention(const OpInputs& in, const AttendedKeys& attended) {
  const CachedPlaces* const at = cached_places(in.name);
  if (at == nullptr || in[at->query].shape.size() < 2 || in[at->key].shape.size() < 2) return {};
  // A query of all heads, a key and a value of one slot.
  const Amount query = product_after(in[at->query].shape, 1);
  const Amount slot = product_after(in[at->key].shape, 1) + product_after(in[at->value].shape, 1);
  const int bits = in[at->query].element_bits();
  OpWork work = multiplying(query * attended.pairs * 2,
                            bytes_of(in, at->query) * 2 + bytes_of(slot * attended.keys, in[at->key].element_bits()),
                            in[at->query]);
  work.skipped_flops = std::clamp<int64_t>((query * attended.masked_pairs * 4).or_unknown(), 0,
                                           std::max<int64_t>(work.flops, 0));
  return bits > 0 ? work : OpWork();
}

extern const OpFamily kAttention = {"attention", kAttentionForms};

}  // namespace profgpu
