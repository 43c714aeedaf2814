// Pooling and resizing of images.
#include <algorithm>

#include "analyse/work/op_sizes.h"

namespace profgpu {
namespace {

// Elements of a result whose last dimensions are these.
Amount resized(const OpInput& input, const std::vector<int64_t>& last) {
  if (input.shape.size() < last.size()) return Amount::unknown();
  return product_of(std::span(input.shape).first(input.shape.size() - last.size())) * product_of(last);
}

// Windows at every stride; nothing: the values are not in the trace.
std::optional<std::vector<int64_t>> pooled(const OpInputs& in, size_t dimensions) {
  const auto kernel = list_value(in[1]), stride = list_value(in[2]), padding = list_value(in[3]);
  const auto& shape = in[0].shape;
  if (!kernel || !stride || !padding || kernel->empty() || padding->empty() || shape.size() < dimensions)
    return std::nullopt;
  std::vector<int64_t> result;
  for (size_t i = 0; i < dimensions; ++i) {
    const auto of = [&](const std::vector<int64_t>& list) { return list[std::min(i, list.size() - 1)]; };
    const int64_t step = stride->empty() ? of(*kernel) : of(*stride), size = shape[shape.size() - dimensions + i];
    constexpr int64_t kLargest = int64_t{1} << 31;
    if (step < 1 || std::max({of(*padding), of(*kernel), size}) > kLargest || std::min(of(*padding), of(*kernel)) < 0)
      return std::nullopt;
    result.push_back(std::max<int64_t>((size + 2 * of(*padding) - of(*kernel)) / step + 1, 0));
  }
  return result;
}

// `Index`: bytes of each result's index.
template <size_t Dimensions, int64_t Index>
OpWork pool(const OpInputs& in) {
  const auto size = pooled(in, Dimensions);
  if (!size) return {.flops = 0};
  const Amount results = resized(in[0], *size);
  return moving(bytes_of(in, 0) + bytes_of(results, in[0].element_bits()) + results * Index);
}

// The gradient and what else is needed of the results is read, the gradient of the input written.
template <size_t Indices>
OpWork pool_backward(const OpInputs& in) {
  return moving(bytes_of(in, 0) + bytes_like(in, 1) + bytes_of(in, Indices));
}

OpWork adaptive(const OpInputs& in) {
  const auto size = list_value(in[1]);
  if (!size) return {.flops = 0};
  return moving(bytes_of(in, 0) + bytes_of(resized(in[0], *size), in[0].element_bits()));
}

OpWork adaptive_backward(const OpInputs& in) { return moving(bytes_of(in, 0) + bytes_like(in, 1)); }

// aten::upsample_..._backward(grad_output, output_size, input_size)
OpWork upsample_backward(const OpInputs& in) {
  const auto size = list_value(in[2]);
  if (!size) return {.flops = 0};
  return moving(bytes_of(in, 0) + bytes_of(product_of(*size), in[0].element_bits()));
}

constexpr OpForm kPoolForms[] = {
    {"aten::max_pool2d_with_indices", pool<2, 8>},
    {"aten::max_pool3d_with_indices", pool<3, 8>},
    {"aten::avg_pool2d", pool<2, 0>},
    {"aten::avg_pool3d", pool<3, 0>},
    {"aten::max_pool2d_with_indices_backward aten::max_pool3d_with_indices_backward", pool_backward<7>},
    {"aten::avg_pool2d_backward aten::avg_pool3d_backward aten::_adaptive_avg_pool2d_backward "
     "aten::_adaptive_avg_pool3d_backward",
     adaptive_backward},
    {"aten::_adaptive_avg_pool2d aten::_adaptive_avg_pool3d aten::upsample_nearest1d aten::upsample_nearest2d "
     "aten::upsample_nearest3d aten::_upsample_nearest_exact2d aten::upsample_bilinear2d aten::upsample_bicubic2d "
     "aten::upsample_linear1d aten::upsample_trilinear3d",
     adaptive},
    {"aten::upsample_nearest1d_backward aten::upsample_nearest2d_backward aten::upsample_nearest3d_backward "
     "aten::upsample_bilinear2d_backward aten::upsample_bicubic2d_backward",
     upsample_backward},
};

}  // namespace

extern const OpFamily kPools = {"pools", kPoolForms};

}  // namespace profgpu
