// Kernels that torch.compile made: their arguments are the tensors that they read, write or both.
#include "analyse/work/op_sizes.h"
#include "base/text.h"

namespace profgpu {
namespace {

// Of these, kernels read the elements that indices or a slice select; the argument is the whole tensor.
constexpr std::string_view kSelecting[] = {"embedding", "index",   "gather",  "scatter", "slice",    "select",
                                           "split",     "unbind",  "unfold",  "take",    "nll_loss", "as_strided",
                                           "grid_sampler", "upsample"};

// An argument that is both read and written counts once: which one is, the trace does not say.
OpWork arguments_once(const OpInputs& in) {
  if (contains_any(in.name, kSelecting)) return {.flops = 0};
  return moving(bytes_of(in, 0, in.at.size()));
}

// "poi", "red" and "per" are pointwise, reductions, and reductions in one pass (torch/_inductor/codegen/triton.py). Of
// its products, "tem", the sizes are not known by their arguments' order.
constexpr OpForm kTritonForms[] = {{"triton_poi_* triton_red_* triton_per_*", arguments_once}};

}  // namespace

extern const OpFamily kTriton = {"compiled", kTritonForms};

}  // namespace profgpu
