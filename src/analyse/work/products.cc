// Matrix products. Positions of inputs are those of the operators' schemas.
#include <algorithm>

#include "analyse/work/op_sizes.h"

namespace profgpu {
namespace {

using Sizes = std::vector<int64_t>;

int64_t last(const Sizes& sizes, size_t from_end) {
  return sizes.size() > from_end ? sizes[sizes.size() - 1 - from_end] : 1;
}

// Of two matrices, or of two batches of them, whose sizes fit.
struct Product {
  Amount batch = 1, m = 0, n = 0, k = 0;

  [[nodiscard]] Amount multiply_adds() const { return batch * m * n * k; }
  [[nodiscard]] Amount results() const { return batch * m * n; }
};

std::optional<Product> fitting(const Sizes& a, const Sizes& b, size_t dimensions) {
  if (a.size() != dimensions || b.size() != dimensions || last(a, 0) != last(b, 1)) return std::nullopt;
  if (dimensions == 3 && a.front() != b.front()) return std::nullopt;
  return Product{dimensions == 3 ? a.front() : 1, last(a, 1), last(b, 0), last(a, 0)};
}

// Both inputs and the result, whose elements have so many bits.
OpWork multiplied(const OpInputs& in, size_t a, const Product& p, int result_bits, Amount beside = 0) {
  const Amount moved = bytes_of(in, a) + bytes_of(in, a + 1) + bytes_of(p.results(), result_bits) + beside;
  OpWork work = multiplying(p.multiply_adds(), moved, in[a]);
  const ProductSizes sizes{p.batch.or_unknown(), p.m.or_unknown(), p.n.or_unknown(), p.k.or_unknown()};
  if (std::min({sizes.batch, sizes.m, sizes.n, sizes.k}) > 0) work.product = sizes;
  return work;
}

template <size_t A, size_t Dimensions>
OpWork matrices(const OpInputs& in) {
  const auto p = fitting(in[A].shape, in[A + 1].shape, Dimensions);
  if (!p) return {};
  return multiplied(in, A, *p, in[A].element_bits(), bytes_of(in, 0, A));
}

// aten::_int_mm: its results are 32-bit integers.
OpWork integers(const OpInputs& in) {
  const auto p = fitting(in[0].shape, in[1].shape, 2);
  return p ? multiplied(in, 0, *p, 32) : OpWork();
}

// aten::addbmm adds up the products of a batch.
OpWork added_up(const OpInputs& in) {
  const auto p = fitting(in[1].shape, in[2].shape, 3);
  if (!p) return {};
  return multiplying(p->multiply_adds(), bytes_of(in, 0, 3) + bytes_of(p->m * p->n, in[1].element_bits()), in[1]);
}

template <size_t A>
OpWork matrix_by_vector(const OpInputs& in) {
  if (in[A].shape.size() != 2) return {};
  const Amount results = bytes_of(Amount(in[A].shape[0]), in[A].element_bits());
  return multiplying(elements_of(in[A]), bytes_of(in, 0, A + 2) + results, in[A]);
}

OpWork dot(const OpInputs& in) { return multiplying(elements_of(in[0]), bytes_of(in, 0, 2), in[0]); }

// A of any number of dimensions by the transpose of a matrix.
OpWork by_transpose(const OpInputs& in, size_t a, int result_bits) {
  const Sizes &left = in[a].shape, &right = in[a + 1].shape;
  if (left.empty() || right.size() != 2 || left.back() != right.back()) return {};
  const Product p{1, product_of(std::span(left).first(left.size() - 1)), right[0], right[1]};
  return multiplied(in, a, p, result_bits, bytes_of(in, a + 2));
}

OpWork linear(const OpInputs& in) { return by_transpose(in, 0, in[0].element_bits()); }

OpWork matmul(const OpInputs& in) {
  Sizes a = in[0].shape, b = in[1].shape;
  if (a.empty() || b.empty()) return {};
  if (a.size() == 1) a.insert(a.begin(), 1);
  if (b.size() == 1) b.push_back(1);
  if (last(a, 0) != last(b, 1)) return {};
  const Sizes leading[] = {{a.begin(), a.end() - 2}, {b.begin(), b.end() - 2}};
  const auto batch = broadcast(leading);
  if (!batch) return {};
  return multiplied(in, 0, {product_of(*batch), last(a, 1), last(b, 0), last(a, 0)}, in[0].element_bits());
}

// What an operator that takes `out_dtype` writes where that is not recorded, or is none: BF16.
int result_bits(const OpInput& out_dtype) {
  const auto number = whole_value(out_dtype);
  const int bits = number ? bits_of_scalar_type(*number) : 0;
  return bits > 0 ? bits : 16;
}

// The counter takes a byte with two FP4 numbers for one element, and so counts half of what a kernel computes.
OpWork unpacked(OpWork work) {
  if (work.flops > 0 && work.precision == Precision::kFp4) work.skipped_flops = -work.flops;
  return work;
}

template <size_t OutDtype>
OpWork scaled(const OpInputs& in) {
  const auto p = fitting(in[0].shape, in[1].shape, 2);
  return p ? unpacked(multiplied(in, 0, *p, result_bits(in[OutDtype]), bytes_of(in, 2, OutDtype))) : OpWork();
}

// Products of groups, which `offs` says the ends of: of rows, of columns, or of what is added up over. That they may
// end before the last row is not in the trace.
template <size_t OutDtype, size_t Offsets>
OpWork grouped(const OpInputs& in) {
  const Sizes &a = in[0].shape, &b = in[1].shape;
  const size_t dimensions = a.size() * 10 + b.size();
  if (dimensions == 33) {
    const auto p = fitting(a, b, 3);
    return p ? unpacked(multiplied(in, 0, *p, result_bits(in[OutDtype]))) : OpWork();
  }
  if ((dimensions != 22 && dimensions != 23 && dimensions != 32) || last(a, 0) != last(b, 1)) return {};
  const Amount groups = dimensions == 22 ? Amount(in[Offsets].shape.empty() ? 1 : in[Offsets].shape[0]) : Amount(1);
  const Amount m = last(a, 1), n = last(b, 0);
  const Amount moved = bytes_of(in, 0, 2) + bytes_of(groups * m * n, result_bits(in[OutDtype]));
  return unpacked(multiplying(m * n * last(a, 0), moved, in[0]));
}

// aten::_weight_int4pack_mm packs its weights: their number of columns is in the scales.
OpWork packed_int4(const OpInputs& in) {
  if (in[0].shape.size() != 2 || in[3].shape.size() != 3) return {};
  const Product p{1, in[0].shape[0], in[3].shape[1], in[0].shape[1]};
  return multiplied(in, 0, p, in[0].element_bits(), bytes_of(in, 3));
}

OpWork packed_int8(const OpInputs& in) { return by_transpose(in, 0, in[0].element_bits()); }

// Engines' own: `a` by the transpose of a matrix.
template <size_t OutDtype>
OpWork engine_linear(const OpInputs& in) {
  return by_transpose(in, 0, in[0].element_bits() > 8 ? in[0].element_bits() : result_bits(in[OutDtype]));
}

// The result is the first input.
OpWork into_first(const OpInputs& in) {
  const auto p = fitting(in[1].shape, in[2].shape, 2);
  return p ? multiplied(in, 1, *p, in[0].element_bits()) : OpWork();
}

OpWork with_precision(OpWork work, Precision precision) {
  if (work.flops >= 0) work.precision = precision;
  return work;
}

// a [rows, k/2] by the transpose of b [n, k/2], two FP4 numbers in each byte; scales follow, and what else is read.
OpWork packed_fp4(const OpInputs& in, size_t a, size_t end, int bits) {
  const Sizes &left = in[a].shape, &right = in[a + 1].shape;
  if (left.size() != 2 || right.size() != 2 || left[1] != right[1]) return {};
  const Product p{1, left[0], right[0], Amount(left[1]) * 2};
  return with_precision(multiplied(in, a, p, bits, bytes_of(in, a + 2, end)), Precision::kFp4);
}

// (out, a, b, scales of a, of b, alpha)
OpWork fp4_into_first(const OpInputs& in) { return packed_fp4(in, 1, 6, in[0].element_bits()); }

// aiter::gemm_a4w4(a, b, scales of a, of b, ...): what is next is the result or a bias, by version.
OpWork fp4_aiter(const OpInputs& in) { return packed_fp4(in, 0, 4, 16); }

// Of activations and weights that are packed, whose number of columns is `n`; all inputs are read. `into`: one of them
// is the result.
OpWork packed(const OpInputs& in, int64_t n, bool into = false) {
  const Sizes& a = in[0].shape;
  if (a.size() < 2 || n <= 0) return {};
  const Product p{1, product_of(std::span(a).first(a.size() - 1)), n, a.back()};
  const int bits = in[0].element_bits() > 8 ? in[0].element_bits() : 16;
  const Amount written = into ? Amount(0) : bytes_of(p.results(), bits);
  OpWork work = multiplying(p.multiply_adds(), bytes_of(in, 0, in.at.size()) + written, in[0]);
  const ProductSizes sizes{1, p.m.or_unknown(), n, a.back()};
  if (sizes.m > 0 && sizes.k > 0) work.product = sizes;
  return work;
}

// Marlin's come in several versions, but all have the three sizes one after the other, as numbers.
OpWork marlin(const OpInputs& in) {
  const Sizes& a = in[0].shape;
  if (a.size() != 2) return {};
  for (size_t place = 3; place + 2 < in.at.size(); ++place) {
    if (whole_value(in[place]) != a[0] || whole_value(in[place + 2]) != a[1]) continue;
    const int64_t n = whole_value(in[place + 1]).value_or(0);
    return packed(in, n, in[1].shape == Sizes{a[0], n});
  }
  return {};
}

// awq_gemm(a [m, k], weights [k, n/8], ...), of 32-bit words with eight numbers.
OpWork awq(const OpInputs& in) {
  const Sizes& weights = in[1].shape;
  if (weights.size() != 2 || weights[0] != last(in[0].shape, 0)) return {};
  return packed(in, (Amount(weights[1]) * 8).or_unknown());
}

// gptq_gemm and machete_mm (a [m, k], weights [words of k, n], ...).
OpWork packed_rows(const OpInputs& in) {
  const Sizes& weights = in[1].shape;
  if (weights.size() != 2 || weights[0] < 1 || last(in[0].shape, 0) % weights[0] != 0) return {};
  return packed(in, weights[1]);
}

// bitsandbytes::gemv_4bit(a, b, [n, k], ...).
OpWork of_listed_sizes(const OpInputs& in) {
  const auto sizes = list_value(in[2]);
  return sizes && sizes->size() == 2 && (*sizes)[1] == last(in[0].shape, 0) ? packed(in, (*sizes)[0]) : OpWork();
}

OpWork integers_by_transpose(const OpInputs& in) { return by_transpose(in, 0, 32); }

// vllm::apply_w8a8_block_fp8_linear(input, weight, ...): the input is rounded to the weights' type.
OpWork rounded_to_weights(const OpInputs& in) {
  return with_precision(by_transpose(in, 0, in[0].element_bits()), precision_of(in[1]));
}

// DeepGEMM's, as SGLang calls it: (a [m, k], scales, b [n, k], scales, result).
OpWork with_scales_between(const OpInputs& in) {
  const Sizes &a = in[0].shape, &b = in[2].shape, &out = in[4].shape;
  if (a.size() != 2 || b.size() != 2 || a[1] != b[1] || out != Sizes{a[0], b[0]}) return {};
  OpWork work = multiplying(Amount(a[0]) * b[0] * a[1], bytes_of(in, 0, 5), in[0]);
  if (work.flops > 0) work.product = {1, a[0], b[0], a[1]};
  return work;
}

// Primus-Turbo's: rows of `a`, sorted by their group, by its matrix or by the transpose of that.
OpWork groups_of_rows(const OpInputs& in) {
  const Sizes &a = in[0].shape, &b = in[1].shape;
  if (a.size() != 2 || b.size() != 3 || (b[1] != a[1] && b[2] != a[1])) return {};
  const int64_t n = b[1] == a[1] ? b[2] : b[1];
  return multiplying(Amount(a[0]) * a[1] * n,
                     bytes_of(in, 0, 2) + bytes_of(Amount(a[0]) * n, in[0].element_bits()), in[0]);
}

// Transformer Engine's tex_ts::te_gemm_ts (its ts_fp8_op.cpp): A, of n rows or columns, B and the result D [m, n]. What
// is in bytes is FP8.
OpWork te_gemm(const OpInputs& in) {
  const Sizes &a = in[0].shape, &b = in[5].shape, &d = in[10].shape;
  if (a.size() != 2 || b.size() != 2 || d.size() != 2 || d[0] < 1 || d[1] < 1) return {};
  const int64_t k = a[0] == d[1] ? a[1] : a[0];
  const Amount of_b = Amount(d[0]) * k, of_a = Amount(d[1]) * k;
  if (of_a.or_unknown() != elements_of(in[0]).or_unknown() || of_b.or_unknown() != elements_of(in[5]).or_unknown())
    return {};
  OpWork work = multiplying(of_b * d[1], bytes_of(in, 0) + bytes_of(in, 5) + bytes_of(in, 10), in[0]);
  if (in[0].element_bits() == 8) work = with_precision(work, Precision::kFp8);
  if (work.flops > 0 && k > 0) work.product = {1, d[0], d[1], k};
  return work;
}

// Transformer Engine's modules, forward: a matrix of weights and an input that fits it, in either order. They round
// both to the recipe's type, which kernels' names show; ranks may gather the input before.
template <bool WeightFirst>
OpWork te_module(const OpInputs& in) {
  const auto fits = [&](size_t weight, size_t input) {
    const Sizes &w = in[weight].shape, &x = in[input].shape;
    return w.size() == 2 && x.size() >= 2 && is_tensor(in[weight]) && is_tensor(in[input]) && w[1] == x.back() && w != x;
  };
  for (size_t other = 1; other < in.at.size(); ++other) {
    const size_t weight = WeightFirst ? 0 : other, input = WeightFirst ? other : 0;
    if (!fits(weight, input)) continue;
    const Sizes& x = in[input].shape;
    const Amount results = product_of(std::span(x).first(x.size() - 1)) * in[weight].shape[0];
    OpWork work = multiplying(results * x.back(),
                              bytes_of(in, weight) + bytes_of(in, input) + bytes_of(results, in[input].element_bits()),
                              in[weight]);
    work.precision = Precision::kUnknown, work.lower_bound = true;
    return work;
  }
  return {};
}

constexpr OpForm kForms[] = {
    {"aten::mm", matrices<0, 2>},
    {"aten::_int_mm", integers},
    {"aten::addmm aten::_addmm_activation", matrices<1, 2>},
    {"aten::bmm", matrices<0, 3>},
    {"aten::baddbmm", matrices<1, 3>},
    {"aten::addbmm", added_up},
    {"aten::mv", matrix_by_vector<0>},
    {"aten::addmv", matrix_by_vector<1>},
    {"aten::dot aten::vdot", dot},
    {"aten::linear aten::mkldnn_linear mkldnn::_linear_pointwise", linear},
    {"aten::matmul", matmul},
    {"aten::_scaled_mm", scaled<6>},
    {"aten::_scaled_mm_v2", scaled<9>},
    {"aten::_grouped_mm", grouped<4, 2>},
    {"aten::_scaled_grouped_mm", grouped<7, 4>},
    {"aten::_scaled_grouped_mm_v2", grouped<10, 8>},
    {"aten::_weight_int8pack_mm", packed_int8},
    {"aten::_weight_int4pack_mm", packed_int4},
    {"vllm::rocm_unquantized_gemm vllm::rocm_unquantized_gemm_impl", linear},
    {"aiter::gemm_a16w16", engine_linear<3>},
    {"aiter::gemm_a8w8 vllm::rocm_aiter_gemm_a8w8", engine_linear<5>},
    {"_C::cutlass_scaled_mm _C::cutlass_scaled_mm_azp", into_first},
    {"_C::cutlass_scaled_fp4_mm sgl_kernel::cutlass_scaled_fp4_mm", fp4_into_first},
    {"aiter::gemm_a4w4", fp4_aiter},
    {"_C::gptq_marlin_gemm _C::marlin_gemm sgl_kernel::gptq_marlin_gemm", marlin},
    {"_C::awq_gemm", awq},
    {"_C::gptq_gemm sgl_kernel::gptq_gemm _C::machete_mm", packed_rows},
    {"aiter::gemm_a8w8_blockscale vllm::rocm_aiter_gemm_a8w8_blockscale", engine_linear<4>},
    {"vllm::w8a8_triton_block_scaled_mm_func", engine_linear<5>},
    {"vllm::apply_w8a8_block_fp8_linear", rounded_to_weights},
    {"trtllm::cublas_scaled_mm", scaled<5>},
    {"bitsandbytes::int8_linear_matmul", integers_by_transpose},
    {"bitsandbytes::gemv_4bit", of_listed_sizes},
    {"sglang::deep_gemm_fp8_fp8_bf16_nt", with_scales_between},
    {"primus_turbo::grouped_gemm primus_turbo::grouped_gemm_impl", groups_of_rows},
    {"tex_ts::te_gemm_ts", te_gemm},
    {"_Linear", te_module<true>},
    {"_LayerNormLinear", te_module<false>},
    {"sgl_kernel::fp8_scaled_mm sgl_kernel::int8_scaled_mm sgl_kernel::fp8_blockwise_scaled_mm", scaled<4>},
};

}  // namespace

extern const OpFamily kProducts = {"products", kForms};

}  // namespace profgpu
