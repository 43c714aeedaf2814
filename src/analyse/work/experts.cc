// Mixtures of experts in one operator: each token's products with the weights of its experts.
#include <algorithm>
#include <cmath>

#include "analyse/work/op_sizes.h"

namespace profgpu {
namespace {

// Distinct experts that so many choices of each token reach if all are as likely: which ones is not in the trace. With
// many tokens that is all of them.
int64_t experts_reached(int64_t experts, int64_t choices, int64_t tokens) {
  const double missed = std::pow(1 - std::min(1.0, static_cast<double>(choices) / static_cast<double>(experts)),
                                 static_cast<double>(tokens));
  return std::max<int64_t>(std::min(choices, experts), std::llround(static_cast<double>(experts) * (1 - missed)));
}

// (hidden_states [tokens, size], w1 [experts, up, size], w2 [experts, size, down], topk_weights, topk_ids [tokens,
// chosen]).
template <size_t Chosen>
OpWork experts(const OpInputs& in) {
  const auto &x = in[0].shape, &up = in[1].shape, &down = in[2].shape, &chosen = in[Chosen].shape;
  if (x.size() != 2 || up.size() != 3 || down.size() != 3 || chosen.size() != 2 || chosen[0] != x[0]) return {};
  if (up[2] != x[1] || down[1] != x[1] || up[0] != down[0] || up[0] < 1) return {};   // packed, or in another order
  const Amount weights = Amount(up[1]) * up[2] + Amount(down[1]) * down[2];
  const int64_t used = experts_reached(up[0], chosen[1], x[0]);
  const Amount moved = bytes_of(in, 0) + bytes_like(in, 0) + bytes_of(weights * used, in[1].element_bits()) +
                       bytes_of(in, Chosen);
  return multiplying(weights * x[0] * chosen[1], moved, in[1]);
}

// _C::cutlass_moe_mm(out, a, b, ...): rows of `a`, sorted by their experts, by the weights of each. That experts of
// other ranks leave rows out is not in the trace.
OpWork sorted_rows(const OpInputs& in) {
  const auto &out = in[0].shape, &a = in[1].shape, &b = in[2].shape;
  if (out.size() != 2 || a.size() != 2 || b.size() != 3 || out[0] != a[0] || b[0] < 1) return {};
  const Amount weights = Amount(a[1]) * out[1];
  if (product_after(b, 1).or_unknown() != weights.or_unknown()) return {};   // packed
  const Amount moved = bytes_of(in, 0, 2) + bytes_of(weights * experts_reached(b[0], 1, a[0]), in[2].element_bits());
  return multiplying(weights * a[0], moved, in[1]);
}

// AITER's in one kernel: (result, a [m, size], w1 [experts, up, size], w2 [experts, size, down], four tensors of which
// rows belong to which expert, choices of each row, ...).
OpWork of_sorted_choices(const OpInputs& in) {
  const auto &x = in[1].shape, &up = in[2].shape, &down = in[3].shape;
  const auto choices = whole_value(in[8]);
  if (x.size() != 2 || up.size() != 3 || down.size() != 3 || !choices || *choices < 1) return {};
  if (up[2] != x[1] || down[1] != x[1] || up[0] != down[0] || up[0] < 1) return {};   // packed, or in another order
  const Amount weights = Amount(up[1]) * up[2] + Amount(down[1]) * down[2];
  const Amount moved = bytes_of(in, 0, 2) +
                       bytes_of(weights * experts_reached(up[0], *choices, x[0]), in[2].element_bits());
  return multiplying(weights * x[0] * *choices, moved, in[1]);
}

// moe_wna16_marlin_gemm(a [m, k], result, packed weights [experts, ...], ...): by version, the tensors that belong to
// experts follow, then (block size, choices of each row, a flag, type, m, n, k, flags).
OpWork marlin_experts(const OpInputs& in) {
  const auto &a = in[0].shape, &weights = in[2].shape;
  size_t flag = 0;
  while (flag < in.at.size() && in[flag].value != "True" && in[flag].value != "False") ++flag;
  const auto choices = flag > 0 ? whole_value(in[flag - 1]) : std::nullopt;
  if (a.size() != 2 || weights.size() != 3 || weights[0] < 1 || !choices || *choices < 1) return {};
  for (size_t place = flag + 1; place + 2 < in.at.size(); ++place) {
    if (whole_value(in[place]) != a[0] || whole_value(in[place + 2]) != a[1]) continue;
    const int64_t n = whole_value(in[place + 1]).value_or(-1), used = experts_reached(weights[0], *choices, a[0]);
    Amount moved = bytes_of(in, 0) + bytes_of(Amount(a[0]) * *choices * n, in[0].element_bits());
    for (size_t i = 2; i < flag; ++i)
      if (in[i].shape.size() == 3 && in[i].shape[0] == weights[0]) moved = moved + bytes_of(in, i) / weights[0] * used;
    return multiplying(Amount(a[0]) * *choices * n * a[1], moved, in[0]);
  }
  return {};
}

// vLLM's layer as one operator: its weights are no inputs.
OpWork weights_unknown(const OpInputs&) { return {}; }

constexpr OpForm kExpertForms[] = {
    {"_C::cutlass_moe_mm", sorted_rows},
    {"_moe_C::moe_wna16_marlin_gemm sgl_kernel::moe_wna16_marlin_gemm", marlin_experts},
    {"aiter::fmoe_fp8_blockscale_g1u1", of_sorted_choices},
    {"vllm::moe_forward vllm::moe_forward_shared", weights_unknown},
    {"vllm::inplace_fused_experts vllm::outplace_fused_experts sglang::inplace_fused_experts "
     "sglang::outplace_fused_experts",
     experts<4>},
};

}  // namespace

extern const OpFamily kExperts = {"experts", kExpertForms};

}  // namespace profgpu
