// Softmax and losses.
#include "analyse/work/op_sizes.h"

namespace profgpu {
namespace {

// One input, and a result of its size.
OpWork softmax(const OpInputs& in) {
  // half_to_float: FP16 in, FP32 out.
  const bool widened = flag_value(in[2]).value_or(false) && in[0].element_bits() == 16;
  return moving(bytes_of(in, 0) + bytes_like(in, 0) * (widened ? 2 : 1));
}

// Gradient and result are read, the gradient of the input written, which has the type that the last argument says.
OpWork softmax_backward(const OpInputs& in) {
  const auto type = whole_value(in[3]);
  const int bits = type ? bits_of_scalar_type(*type) : 0;
  return moving(bytes_of(in, 0, 2) + bytes_of(elements_of(in[1]), bits > 0 ? bits : in[1].element_bits()));
}

// One element of each row is looked at; the target is read.
OpWork nll_loss(const OpInputs& in) {
  return moving(bytes_of(in, 1) + bytes_of(elements_of(in[1]), in[0].element_bits()));
}

// The gradient of all is written.
OpWork nll_loss_backward(const OpInputs& in) { return moving(bytes_like(in, 1) + bytes_of(in, 2)); }

// Two inputs to one number: reduction 0 keeps all of them (at::Reduction).
template <size_t Reduction>
OpWork loss(const OpInputs& in) {
  const auto reduction = whole_value(in[Reduction]);
  return moving(bytes_of(in, 0, Reduction) + (reduction == 0 ? bytes_like(in, 0) : 0));
}

OpWork loss_backward(const OpInputs& in) { return moving(bytes_of(in, 0, 3) + bytes_like(in, 1)); }

constexpr OpForm kLossForms[] = {
    {"aten::_softmax aten::_log_softmax aten::_safe_softmax aten::softmax aten::log_softmax", softmax},
    {"aten::_softmax_backward_data aten::_log_softmax_backward_data", softmax_backward},
    {"aten::nll_loss_forward aten::nll_loss2d_forward", nll_loss},
    {"aten::nll_loss_backward aten::nll_loss2d_backward", nll_loss_backward},
    {"aten::mse_loss aten::smooth_l1_loss aten::huber_loss", loss<2>},
    {"aten::binary_cross_entropy", loss<3>},
    {"aten::mse_loss_backward aten::smooth_l1_loss_backward aten::huber_loss_backward "
     "aten::binary_cross_entropy_backward",
     loss_backward},
};

}  // namespace

extern const OpFamily kLosses = {"losses", kLossForms};

}  // namespace profgpu
