// Kernels that torch.compile made: their arguments are the tensors that they read, write or both.
#include <algorithm>

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

const OpInput* last_tensor(const OpInputs& in) {
  for (size_t i = in.at.size(); i-- > 0;)
    if (is_tensor(in[i]) && !in[i].shape.empty()) return &in[i];
  return nullptr;
}

// Sizes of a product of `a` by `b`, or by its transpose, with this result; batch 0: they do not fit.
ProductSizes fitting_result(const std::vector<int64_t>& a, const std::vector<int64_t>& b,
                            const std::vector<int64_t>& result) {
  const size_t dimensions = result.size();
  if ((dimensions != 2 && dimensions != 3) || a.size() != dimensions || b.size() != dimensions) return {};
  const int64_t batch = dimensions == 3 ? result[0] : 1, m = result[dimensions - 2], n = result[dimensions - 1];
  const int64_t k = a[dimensions - 1], rows = b[dimensions - 2], columns = b[dimensions - 1];
  if (dimensions == 3 && (a[0] != batch || b[0] != batch)) return {};
  if (a[dimensions - 2] != m || !((rows == k && columns == n) || (rows == n && columns == k))) return {};
  return std::min({batch, m, n, k}) > 0 ? ProductSizes{batch, m, n, k} : ProductSizes{};
}

// A product by a template: its result comes last, and what is fused to it may be among the inputs. Its sizes are known
// if only one way to multiply two of these fits the result.
OpWork product_by_template(const OpInputs& in) {
  OpWork work = arguments_once(in);
  work.flops = -1;
  const OpInput* const result = last_tensor(in);
  if (result == nullptr || !contains(in.name, "mm")) return work;
  ProductSizes sizes;
  for (const OpInput& a : in.at)
    for (const OpInput& b : in.at) {
      if (&a == &b || &a == result || &b == result) continue;
      const ProductSizes fit = fitting_result(a.shape, b.shape, result->shape);
      if (fit.batch == 0 || fit == sizes) continue;
      if (sizes.batch != 0) return work;
      sizes = fit, work.precision = precision_of(a);
    }
  if (sizes.batch == 0) return work;
  work.flops = (Amount(sizes.batch) * sizes.m * sizes.n * sizes.k * 2).or_unknown();
  work.product = sizes;
  return work;
}

// "poi", "red" and "per" are pointwise, reductions, and reductions in one pass, "tem" templates for products and
// attention (torch/_inductor/codegen/triton.py).
constexpr OpForm kTritonForms[] = {{"triton_poi_* triton_red_* triton_per_*", arguments_once},
                                   {"triton_tem_*", product_by_template}};

}  // namespace

extern const OpFamily kTriton = {"compiled", kTritonForms};

}  // namespace profgpu
