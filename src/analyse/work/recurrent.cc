// Recurrent layers as one operator: each weight matrix multiplies every step's input or state.
#include "analyse/work/op_sizes.h"

namespace profgpu {
namespace {

// Steps times sequences, whichever comes first; a packed sequence has both in one.
Amount rows_of(const OpInput& input) {
  if (input.shape.empty()) return Amount::unknown();
  return product_of(std::span(input.shape).first(input.shape.size() - 1));
}

// Gradients of inputs and of weights are two products of the forward one's size.
OpWork layers(const OpInputs& in, Amount weights, bool backward) {
  return multiplying(rows_of(in[0]) * weights * (backward ? 2 : 1), bytes_of(in, 0, in.at.size()), in[0]);
}

template <bool Backward>
OpWork weight_list(const OpInputs& in) {
  Amount weights = 0;
  for (const auto& shape : in[1].list)
    if (shape.size() == 2) weights = weights + product_of(shape);
  return in[1].list.empty() ? OpWork() : layers(in, weights, Backward);
}

// oneDNN's layer has the two matrices apart.
template <bool Backward>
OpWork two_weights(const OpInputs& in) {
  if (in[1].shape.size() != 2 || in[2].shape.size() != 2) return {};
  return layers(in, elements_of(in[1]) + elements_of(in[2]), Backward);
}

constexpr OpForm kRecurrentForms[] = {
    {"aten::_cudnn_rnn aten::miopen_rnn", weight_list<false>},
    {"aten::_cudnn_rnn_backward aten::miopen_rnn_backward", weight_list<true>},
    {"aten::mkldnn_rnn_layer", two_weights<false>},
    {"aten::mkldnn_rnn_layer_backward", two_weights<true>},
};

}  // namespace

extern const OpFamily kRecurrent = {"recurrent", kRecurrentForms};

}  // namespace profgpu
