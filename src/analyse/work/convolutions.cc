// Convolutions, forward and backward. The counter's figures, with what it counts too much for groups apart.
#include <algorithm>

#include "analyse/work/op_sizes.h"

namespace profgpu {
namespace {

using Dims = std::vector<int64_t>;

constexpr size_t kNowhere = 99;   // an input that the operator does not have

// Where an operator has what the size of its result depends on.
struct ConvolutionPlaces {
  size_t stride, padding, dilation = kNowhere, transposed = kNowhere, output_padding = kNowhere;
  size_t groups = kNowhere;
  bool always_transposed = false;
};

// One value stands for all dimensions.
int64_t along(const Dims& values, size_t dimension, int64_t otherwise) {
  if (values.empty()) return otherwise;
  return values.size() == 1 ? values[0] : dimension < values.size() ? values[dimension] : otherwise;
}

std::optional<bool> is_transposed(const OpInputs& in, const ConvolutionPlaces& at) {
  if (at.transposed == kNowhere) return at.always_transposed;
  return flag_value(in[at.transposed]);
}

// Sizes of the result behind batch and channels; nothing: not in the trace.
std::optional<Dims> result_space(const OpInputs& in, const ConvolutionPlaces& at, bool transposed) {
  const auto stride = list_value(in[at.stride]), padding = list_value(in[at.padding]);
  const auto dilation = list_value(in[at.dilation]), output_padding = list_value(in[at.output_padding]);
  if (!stride || !padding || (!dilation && at.dilation != kNowhere)) return std::nullopt;
  const Dims &x = in[0].shape, &w = in[1].shape;
  Dims space;
  for (size_t i = 0; i + 2 < x.size(); ++i) {
    constexpr int64_t kLargest = int64_t{1} << 30;   // of sizes, so that nothing here overflows
    const int64_t s = along(*stride, i, 1), p = along(*padding, i, 0), d = along(dilation.value_or(Dims()), i, 1);
    const int64_t more = along(output_padding.value_or(Dims()), i, 0), reach = x[i + 2], kernel = w[i + 2];
    if (std::max({s, p, d, more, reach, kernel}) > kLargest || std::min({s, d, reach, kernel}) < 1 ||
        std::min(p, more) < 0)
      return std::nullopt;
    const int64_t window = d * (kernel - 1) + 1;
    const int64_t size = transposed ? (reach - 1) * s - 2 * p + window + more : (reach + 2 * p - window) / s + 1;
    if (reach + 2 * p < window && !transposed) return std::nullopt;
    space.push_back(size);
  }
  return space;
}

bool fit(const Dims& x, const Dims& w) { return x.size() >= 3 && x.size() == w.size(); }

// `channels`: of the input as a whole. Of a transposed one's filter the first size is that.
ConvolutionSizes sizes_of(const Dims& w, int64_t channels, bool transposed, Amount points,
                          const std::optional<Dims>& dilation, std::optional<int64_t> groups) {
  if (!transposed && w[1] > 0 && channels % w[1] == 0) groups = channels / w[1];
  const int64_t n = std::max<int64_t>(groups.value_or(1), 1);
  const bool dilated = dilation && !dilation->empty();
  return {.channels = channels / n,
          .groups = n,
          .points = std::max<int64_t>(points.or_unknown(), 0),
          .dilation = dilated ? std::ranges::max(*dilation) : 1,
          .transposed = transposed};
}

template <ConvolutionPlaces At>
OpWork convolution(const OpInputs& in) {
  const Dims &x = in[0].shape, &w = in[1].shape;
  const auto transposed = is_transposed(in, At);
  if (!fit(x, w) || !transposed) return {};
  const auto space = result_space(in, At, *transposed);
  if (!space && !*transposed) return {};
  // Each point of the result, or of the input that a transposed convolution spreads, meets the whole filter.
  const Amount points = *transposed ? product_after(x, 2) : product_of(*space);
  const Amount multiply_adds = points * x[0] * product_of(w);
  Amount moved = Amount::unknown();
  if (space) {
    // Of a transposed one's filter the second size is that of a group.
    const int64_t groups = *transposed ? whole_value(in[At.groups]).value_or(1) : 1;
    const Amount channels = *transposed ? Amount(w[1]) * groups : Amount(w[0]);
    moved = bytes_of(in, 0, 3) + bytes_of(channels * x[0] * product_of(*space), in[0].element_bits());
  }
  OpWork work = multiplying(multiply_adds, moved, in[0]);
  const std::optional<int64_t> groups = At.groups != kNowhere ? whole_value(in[At.groups]) : std::nullopt;
  const Amount results = space ? product_of(*space) * x[0] : Amount::unknown();
  if (work.flops > 0) work.convolution = sizes_of(w, x[1], *transposed, results, list_value(in[At.dilation]), groups);
  return work;
}

// Gradients of the input (grad_output with the filter) and of the weight (input with grad_output), as far as the mask
// wants them. The counter has each of a group's products once for each group in the latter.
OpWork gradients(const OpInputs& in, size_t grad, size_t input, size_t weight, std::optional<bool> transposed,
                 std::optional<int64_t> groups, std::optional<std::vector<bool>> mask,
                 const std::optional<Dims>& dilation) {
  const Dims &g = in[grad].shape, &x = in[input].shape, &w = in[weight].shape;
  if (!fit(g, w) || !fit(x, w) || !transposed || !groups || *groups < 1 || !mask || mask->size() < 2) return {};
  const Amount points = product_after(*transposed ? x : g, 2);
  Amount all = 0, skipped = 0;
  if ((*mask)[0]) all = all + points * product_of(w) * x[0];
  if ((*mask)[1]) {
    const Amount counted = points * product_after(w, 2) * g[1] * x[1] * x[0];
    all = all + counted;
    skipped = counted - counted / *groups;
  }
  const Amount read = bytes_of(in, grad) + bytes_of(in, input) + bytes_of(in, weight);
  const Amount written = ((*mask)[0] ? bytes_like(in, input) : 0) + ((*mask)[1] ? bytes_like(in, weight) : 0);
  OpWork work = multiplying(all, read + written, in[grad]);
  work.skipped_flops = std::clamp<int64_t>((skipped * 2).or_unknown(), 0, std::max<int64_t>(work.flops, 0));
  if (work.flops > 0)
    work.convolution = sizes_of(w, x[1], *transposed, product_after(g, 2) * g[0], dilation, groups);
  return work;
}

OpWork convolution_backward(const OpInputs& in) {
  return gradients(in, 0, 1, 2, flag_value(in[7]), whole_value(in[9]), flag_list_value(in[10]),
                   list_value(in[6]));
}

OpWork overrideable_backward(const OpInputs& in) {
  return gradients(in, 0, 1, 2, flag_value(in[6]), whole_value(in[8]), flag_list_value(in[9]),
                   list_value(in[5]));
}

// Of PyTorch before 1.11, where cuDNN's and MIOpen's backward passes were operators of their own: grad_output and
// weight alone say the gradient of the input.
OpWork input_gradient(const OpInputs& in) {
  const Dims &g = in[1].shape, &w = in[2].shape;
  if (!fit(g, w)) return {};
  return multiplying(product_after(g, 2) * g[0] * product_of(w), Amount::unknown(), in[1]);
}

// The weight's sizes are a value.
OpWork weight_gradient(const OpInputs& in) {
  const Dims& g = in[1].shape;
  const auto w = list_value(in[0]);
  if (!w || !fit(g, *w)) return {};
  return multiplying(product_after(g, 2) * g[0] * product_of(*w),
                     bytes_of(in, 1, 3) + bytes_of(product_of(*w), in[1].element_bits()), in[1]);
}

constexpr OpForm kConvolutionForms[] = {
    {"aten::convolution aten::_convolution aten::convolution_overrideable",
     convolution<{.stride = 3, .padding = 4, .dilation = 5, .transposed = 6, .output_padding = 7, .groups = 8}>},
    {"aten::cudnn_convolution", convolution<{.stride = 3, .padding = 2, .dilation = 4}>},
    {"aten::miopen_convolution aten::miopen_depthwise_convolution aten::mkldnn_convolution "
     "mkldnn::_convolution_pointwise",
     convolution<{.stride = 4, .padding = 3, .dilation = 5}>},
    {"aten::cudnn_convolution_relu aten::miopen_convolution_relu",
     convolution<{.stride = 3, .padding = 4, .dilation = 5}>},
    {"aten::cudnn_convolution_add_relu", convolution<{.stride = 5, .padding = 6, .dilation = 7}>},
    {"aten::cudnn_convolution_transpose",
     convolution<{.stride = 4, .padding = 2, .dilation = 5, .output_padding = 3, .groups = 6,
                  .always_transposed = true}>},
    {"aten::miopen_convolution_transpose",
     convolution<{.stride = 5, .padding = 3, .dilation = 6, .output_padding = 4, .groups = 7,
                  .always_transposed = true}>},
    {"aten::_slow_conv2d_forward aten::thnn_conv2d aten::slow_conv3d_forward",
     convolution<{.stride = 4, .padding = 5}>},
    {"aten::_conv_depthwise2d aten::conv_depthwise3d aten::slow_conv_dilated2d aten::slow_conv_dilated3d",
     convolution<{.stride = 4, .padding = 5, .dilation = 6}>},
    {"aten::slow_conv_transpose2d aten::slow_conv_transpose3d",
     convolution<{.stride = 4, .padding = 5, .dilation = 7, .output_padding = 6, .always_transposed = true}>},
    {"aten::convolution_backward", convolution_backward},
    {"aten::convolution_backward_overrideable", overrideable_backward},
    {"aten::cudnn_convolution_backward_input aten::miopen_convolution_backward_input", input_gradient},
    {"aten::cudnn_convolution_backward_weight aten::miopen_convolution_backward_weight", weight_gradient},
};

}  // namespace

extern const OpFamily kConvolutions = {"convolutions", kConvolutionForms};

}  // namespace profgpu
