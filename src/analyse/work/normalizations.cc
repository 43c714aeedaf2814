// Normalizations: the input is read and the result written once; backward, the gradient too.
#include "analyse/work/op_sizes.h"

namespace profgpu {
namespace {

// All inputs, and a result of the first one's size.
OpWork normalized(const OpInputs& in) { return moving(bytes_of(in, 0, in.at.size()) + bytes_like(in, 0)); }

// All inputs, and the gradients of the input and of its weight.
template <size_t Weight>
OpWork normalized_backward(const OpInputs& in) {
  return moving(bytes_of(in, 0, in.at.size()) + bytes_like(in, 0) + bytes_like(in, Weight) * 2);
}

// Engines' own, which write to inputs: the first is the result.
OpWork all_once(const OpInputs& in) { return moving(bytes_of(in, 0, in.at.size())); }

// In place: input and residual are read and written.
OpWork added_in_place(const OpInputs& in) {
  return moving(bytes_of(in, 0, in.at.size()) + bytes_of(in, 0, 2));
}

constexpr OpForm kNormalizationForms[] = {
    {"aten::native_layer_norm aten::native_batch_norm aten::cudnn_batch_norm aten::miopen_batch_norm "
     "aten::_batch_norm_with_update aten::_native_batch_norm_legit aten::native_group_norm aten::_fused_rms_norm "
     "aiter::_groupnorm_run aiter::rmsnorm2d_fwd_ck",
     normalized},
    {"aten::native_layer_norm_backward", normalized_backward<5>},
    {"aten::native_batch_norm_backward aten::cudnn_batch_norm_backward aten::miopen_batch_norm_backward "
     "aten::batch_norm_backward",
     normalized_backward<2>},
    {"aten::native_group_norm_backward aten::_fused_rms_norm_backward", normalized_backward<4>},
    {"_C::rms_norm aiter::rmsnorm aiter::add_rmsnorm aiter::rmsnorm2d_fwd_with_add_ck sgl_kernel::rmsnorm", all_once},
    {"_C::fused_add_rms_norm sgl_kernel::fused_add_rmsnorm", added_in_place},
};

}  // namespace

extern const OpFamily kNormalizations = {"normalizations", kNormalizationForms};

}  // namespace profgpu
