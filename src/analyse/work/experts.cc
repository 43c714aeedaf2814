// Mixtures of experts in one operator: each token's products with the weights of its experts.
#include <algorithm>

#include "analyse/work/op_sizes.h"

namespace profgpu {
namespace {

// (hidden_states [tokens, size], w1 [experts, up, size], w2 [experts, size, down], topk_weights, topk_ids [tokens,
// chosen]). Which experts are chosen is not in the trace: at the least each token chooses the same.
template <size_t Chosen>
OpWork experts(const OpInputs& in) {
  const auto &x = in[0].shape, &up = in[1].shape, &down = in[2].shape, &chosen = in[Chosen].shape;
  if (x.size() != 2 || up.size() != 3 || down.size() != 3 || chosen.size() != 2 || chosen[0] != x[0]) return {};
  if (up[2] != x[1] || down[1] != x[1] || up[0] != down[0] || up[0] < 1) return {};   // packed, or in another order
  const Amount weights = Amount(up[1]) * up[2] + Amount(down[1]) * down[2];
  const int64_t used = std::min(chosen[1], up[0]);
  const Amount moved = bytes_of(in, 0) * 2 + bytes_of(weights * used, in[1].element_bits()) + bytes_of(in, Chosen);
  return multiplying(weights * x[0] * chosen[1], moved, in[1]);
}

constexpr OpForm kExpertForms[] = {
    {"vllm::inplace_fused_experts vllm::outplace_fused_experts sglang::inplace_fused_experts "
     "sglang::outplace_fused_experts",
     experts<4>},
};

}  // namespace

extern const OpFamily kExperts = {"experts", kExpertForms};

}  // namespace profgpu
