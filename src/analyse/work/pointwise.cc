// Elementwise operators: each input is read once, and a result of the shape that they are broadcast to is written.
#include <algorithm>

#include "analyse/work/op_sizes.h"

namespace profgpu {
namespace {

bool in_place(const OpInputs& in) { return in.name.ends_with('_'); }

// Bits of a result: of the widest floating-point input, else of the widest. Numbers and tensors without dimensions do
// not widen those that have some.
int widest(const OpInputs& in, size_t count) {
  int floating = 0, any = 0;
  for (const bool dimensions : {true, false}) {
    for (size_t i = 0; i < count; ++i) {
      if (in[i].shape.empty() == dimensions) continue;
      any = std::max(any, in[i].element_bits());
      const Precision precision = precision_of(in[i]);
      if (precision != Precision::kUnknown && precision != Precision::kInt8)
        floating = std::max(floating, in[i].element_bits());
    }
    if (any > 0) break;
  }
  return floating > 0 ? floating : any;
}

// `Count` inputs that may be tensors, and one result, whose elements have so many bits (0: as the inputs have). A
// tensor more is what the result is written to.
OpWork pointwise(const OpInputs& in, size_t count, int bits) {
  std::vector<std::vector<int64_t>> shapes;
  Amount read = 0;
  for (size_t i = 0; i < count; ++i)
    if (is_tensor(in[i])) shapes.push_back(in[i].shape), read = read + bytes_of(in, i);
  if (shapes.empty()) return {.flops = 0};
  if (in_place(in)) return moving(read + bytes_of(in, 0));
  const auto shape = broadcast(shapes);
  if (!shape) return {.flops = 0};
  const OpInput& out = in[in.at.size() - 1];
  if (in.at.size() > count && is_tensor(out)) bits = out.element_bits();
  return moving(read + bytes_of(product_of(*shape), bits > 0 ? bits : widest(in, count)));
}

template <size_t Count, int Bits = 0>
OpWork each(const OpInputs& in) {
  return pointwise(in, Count, Bits);
}

// Whole numbers divide into numbers that are not, unless the result is rounded.
OpWork quotient(const OpInputs& in) {
  const bool rounded = in.at.size() > 2 && !in[2].value.empty() && !is_tensor(in[2]);
  const auto is_floating = [](const OpInput& input) {
    const Precision precision = precision_of(input);
    return precision != Precision::kUnknown && precision != Precision::kInt8;
  };
  return pointwise(in, 2, rounded || is_floating(in[0]) || is_floating(in[1]) ? 0 : 32);
}

// The condition is no value.
OpWork where(const OpInputs& in) { return pointwise(in, 3, widest({in.name, {in[1], in[2]}}, 2)); }

// Result and mask, of a byte each element.
OpWork dropout(const OpInputs& in) { return moving(bytes_of(in, 0) + bytes_like(in, 0) + elements_of(in[0])); }

// Two halves of the input make one result.
OpWork glu(const OpInputs& in) { return moving(bytes_of(in, 0) + bytes_like(in, 0) / 2); }

// Written, not read.
OpWork filled(const OpInputs& in) { return moving(bytes_of(in, 0)); }

// Engines' own: positions, query and key in place, head size, and a table of which each position reads a row.
OpWork rotary(const OpInputs& in) {
  const auto& table = in[4].shape;
  if (table.size() != 2) return {.flops = 0};
  return moving(bytes_of(in, 0) + bytes_of(in, 1, 3) * 2 +
                bytes_of(elements_of(in[0]) * table[1], in[4].element_bits()));
}

// Engines' own: key and value go into caches, which may have a type of their own.
OpWork into_caches(const OpInputs& in) {
  const Amount written = bytes_of(elements_of(in[0]) + elements_of(in[1]), in[2].element_bits());
  return moving(bytes_of(in, 0, 2) + written + bytes_of(in, 4));
}

// Engines' own: the result is one of the inputs.
OpWork into_an_input(const OpInputs& in) { return moving(bytes_of(in, 0, in.at.size())); }

constexpr OpForm kPointwiseForms[] = {
    {"aten::abs aten::neg aten::exp aten::exp2 aten::expm1 aten::log aten::log2 aten::log10 aten::log1p aten::sqrt "
     "aten::rsqrt aten::sin aten::cos aten::tan aten::tanh aten::sigmoid aten::relu aten::relu6 aten::silu aten::gelu "
     "aten::mish aten::elu aten::leaky_relu aten::hardtanh aten::hardswish aten::hardsigmoid aten::softplus "
     "aten::reciprocal aten::sign aten::sgn aten::floor aten::ceil aten::round aten::trunc aten::erf aten::erfinv "
     "aten::clamp_min aten::clamp_max aten::threshold aten::square aten::bitwise_not aten::logit aten::nan_to_num "
     "aten::tril aten::triu aten::frac aten::asin aten::acos aten::atan aten::sinh aten::cosh aten::log_sigmoid_forward",
     each<1>},
    {"aten::clamp", each<3>},
    {"aten::div aten::true_divide", quotient},
    {"aten::logical_not aten::isnan aten::isinf aten::isfinite", each<1, 8>},
    {"aten::add aten::sub aten::rsub aten::mul aten::floor_divide aten::remainder "
     "aten::fmod aten::pow aten::maximum aten::minimum aten::fmax aten::fmin aten::atan2 aten::bitwise_and "
     "aten::bitwise_or aten::bitwise_xor aten::masked_fill aten::threshold_backward aten::tanh_backward "
     "aten::sigmoid_backward aten::gelu_backward aten::silu_backward aten::elu_backward aten::leaky_relu_backward "
     "aten::hardtanh_backward aten::hardswish_backward aten::hardsigmoid_backward aten::softplus_backward "
     "aten::native_dropout_backward aten::_prelu_kernel aten::logit_backward",
     each<2>},
    {"aten::eq aten::ne aten::lt aten::le aten::gt aten::ge aten::logical_and aten::logical_or aten::logical_xor",
     each<2, 8>},
    {"aten::addcmul aten::addcdiv aten::lerp", each<3>},
    {"aten::where", where},
    {"aten::native_dropout aten::_fused_dropout", dropout},
    {"aten::glu", glu},
    {"aten::glu_backward", each<2>},
    {"aten::fill aten::zero aten::normal aten::uniform aten::bernoulli aten::random aten::exponential", filled},
    {"_C::rotary_embedding sgl_kernel::rotary_embedding", rotary},
    {"_C_cache_ops::reshape_and_cache_flash sglang::store_cache", into_caches},
    {"_C::silu_and_mul _C::gelu_and_mul sgl_kernel::silu_and_mul sgl_kernel::gelu_and_mul "
     "_C::static_scaled_fp8_quant _C::dynamic_scaled_fp8_quant _C::dynamic_per_token_scaled_fp8_quant "
     "_C::static_scaled_int8_quant _C::dynamic_scaled_int8_quant sgl_kernel::sgl_per_token_quant_fp8 "
     "sgl_kernel::sgl_per_tensor_quant_fp8",
     into_an_input},
};

}  // namespace

extern const OpFamily kPointwise = {"elementwise", kPointwiseForms};

}  // namespace profgpu
