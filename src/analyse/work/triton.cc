// Kernels that torch.compile made: their arguments are the tensors that they read, write or both.
#include "analyse/work/op_sizes.h"

namespace profgpu {
namespace {

OpWork arguments_once(const OpInputs& in) { return moving(bytes_of(in, 0, in.at.size())); }

// "poi", "red" and "per" are pointwise, reductions, and reductions in one pass (torch/_inductor/codegen/triton.py). Of
// its products, "tem", the sizes are not known by their arguments' order.
constexpr OpForm kTritonForms[] = {{"triton_poi_* triton_red_* triton_per_*", arguments_once}};

}  // namespace

extern const OpFamily kTriton = {"compiled", kTritonForms};

}  // namespace profgpu
