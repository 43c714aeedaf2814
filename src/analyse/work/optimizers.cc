// Operators on lists of tensors: optimizers step by step (foreach) and in one kernel (fused).
#include "analyse/work/op_sizes.h"

namespace profgpu {
namespace {

// All lists are read; the first is written in place, or as new tensors.
OpWork foreach(const OpInputs& in) { return moving(bytes_of(in, 0, in.at.size()) + bytes_like(in, 0)); }

OpWork foreach_read(const OpInputs& in) { return moving(bytes_of(in, 0, in.at.size())); }

// The first list is written; the others are read.
OpWork foreach_written(const OpInputs& in) { return moving(bytes_of(in, 0, 2)); }

// Parameters, gradients and `States` lists of state: all are read, and all but the gradients written.
template <size_t States>
OpWork fused(const OpInputs& in) {
  return moving(bytes_of(in, 0) * 2 + bytes_of(in, 1) + bytes_of(in, 2, 2 + States) * 2);
}

constexpr OpForm kOptimizerForms[] = {
    {"aten::_foreach_norm", foreach_read},
    {"aten::_foreach_copy_ aten::_foreach_zero_", foreach_written},
    {"aten::_fused_adam_ aten::_fused_adamw_", fused<3>},
    {"aten::_fused_sgd_ aten::_fused_adagrad_", fused<1>},
    {"aten::_amp_foreach_non_finite_check_and_unscale_ aten::_foreach_*", foreach},
};

}  // namespace

extern const OpFamily kOptimizers = {"optimizers", kOptimizerForms};

}  // namespace profgpu
