// Reductions and scans: the input is read once; the result is written.

#include "analyse/work/op_sizes.h"

namespace profgpu {
namespace {

// Elements of what is left when the dimensions of `dims` are reduced; all of them where it lists none.
Amount kept_elements(const OpInput& input, const OpInput& dims) {
  const auto list = list_value(dims);
  if (!list || list->empty()) return 1;
  std::vector<int64_t> shape = input.shape;
  const auto dimensions = static_cast<int64_t>(shape.size());
  for (const int64_t dim : *list)
    if (dim >= -dimensions && dim < dimensions) shape[static_cast<size_t>(dim < 0 ? dim + dimensions : dim)] = 1;
  return product_of(shape);
}

// `Results` tensors of the input's type, and an index of eight bytes where `Index` is 8.
template <size_t Dims, int64_t Results, int64_t Index = 0>
OpWork reduced(const OpInputs& in) {
  if (!is_tensor(in[0])) return {.flops = 0};
  // Behind dimensions comes whether they are kept: what comes last is the result's type, or another setting.
  const Amount kept = in.at.size() == Dims + 1 ? Amount(1) : kept_elements(in[0], in[Dims]);
  return moving(bytes_of(in, 0) + bytes_of(kept, in[0].element_bits()) * Results + kept * Index);
}

// aten::max(self), (self, dim, keepdim), which has an index for each result, and (self, other), which is elementwise.
OpWork extreme(const OpInputs& in) {
  if (!is_tensor(in[1])) return in.at.size() > 1 ? reduced<1, 1, 8>(in) : reduced<1, 1>(in);
  const std::vector<int64_t> shapes[] = {in[0].shape, in[1].shape};
  const auto shape = broadcast(shapes);
  if (!shape) return {.flops = 0};
  return moving(bytes_of(in, 0, 2) + bytes_of(product_of(*shape), in[0].element_bits()));
}

// aten::topk(self, k, dim): k of each row, and their indices.
OpWork largest(const OpInputs& in) {
  const auto k = whole_value(in[1]);
  const Amount found = k && list_value(in[2]) ? kept_elements(in[0], in[2]) * *k : Amount::unknown();
  return is_tensor(in[0]) ? moving(bytes_of(in, 0) + bytes_of(found, in[0].element_bits()) + found * 8)
                          : OpWork{.flops = 0};
}

// A result of the input's size, and an index for each element where `Index` is 8.
template <int64_t Index>
OpWork scanned(const OpInputs& in) {
  return moving(bytes_of(in, 0) + bytes_like(in, 0) + elements_of(in[0]) * Index);
}

// How much is found is not in the trace.
OpWork read_once(const OpInputs& in) {
  return is_tensor(in[0]) ? moving(bytes_of(in, 0)) : OpWork{.flops = 0};
}

constexpr OpForm kReductionForms[] = {
    {"aten::sum aten::mean aten::amax aten::amin aten::prod aten::nansum aten::std aten::var aten::logsumexp", 
     reduced<1, 1>},
    {"aten::norm aten::linalg_vector_norm", reduced<2, 1>},
    {"aten::var_mean aten::std_mean", reduced<1, 2>},
    {"aten::max aten::min", extreme},
    {"aten::argmax aten::argmin", reduced<1, 0, 8>},
    {"aten::median aten::nanmedian aten::mode", reduced<1, 1, 8>},
    {"aten::kthvalue", reduced<2, 1, 8>},
    {"aten::aminmax", reduced<1, 2>},
    {"aten::all aten::any", read_once},
    {"aten::cumsum aten::cumprod aten::logcumsumexp", scanned<0>},
    {"aten::sort aten::cummax aten::cummin", scanned<8>},
    {"aten::topk", largest},
    {"aten::nonzero aten::_unique2 aten::bincount aten::histc aten::multinomial", read_once},
};

}  // namespace

extern const OpFamily kReductions = {"reductions", kReductionForms};

}  // namespace profgpu
