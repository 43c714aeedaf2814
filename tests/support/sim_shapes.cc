#include "tests/support/sim_shapes.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace profgpu::sim {
namespace {

constexpr int64_t kHidden = 1024, kHeads = 16, kSequence = 1024, kVocabulary = 18432;

struct Input {
  std::vector<int64_t> dims;
  const char* type = "";       // "": no value
  const char* value = "";      // of what is no tensor
  std::vector<std::vector<int64_t>> list = {};   // of a list of tensors
};

constexpr const char* kHalf = "c10::BFloat16";
constexpr const char* kFloat = "float";

std::string list_of(const std::vector<int64_t>& numbers) {
  std::string text = "[";
  for (size_t i = 0; i < numbers.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(numbers[i]);
  return text + "]";
}

std::vector<int64_t> strides_of(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

ShapeText text_of(const std::vector<Input>& inputs) {
  std::string values, types, strides, dims;
  for (const Input& in : inputs) {
    const char* comma = dims.empty() ? "" : ", ";
    values += std::string(comma) + "\"" + in.value + "\"";
    types += std::string(comma) + "\"" + in.type + "\"";
    strides += comma + (in.list.empty() ? list_of(strides_of(in.dims)) : "[]");
    dims += comma;
    if (in.list.empty()) {
      dims += list_of(in.dims);
      continue;
    }
    std::string tensors;
    for (const std::vector<int64_t>& tensor : in.list) tensors += (tensors.empty() ? "" : ", ") + list_of(tensor);
    dims += "[" + tensors + "]";
  }
  const std::string sizes = "\"Input Dims\": [" + dims + "]";
  return {"\"Concrete Inputs\": [" + values + "], \"Input type\": [" + types + "], \"Input Strides\": [" + strides +
              "], " + sizes,
          sizes};
}

// Rows, inner and columns of a product with weights.
struct WeightProduct {
  Role role;
  int64_t inner, columns;
  bool adds;                   // aten::addmm; else aten::mm
  bool of_weights;             // the gradient of the weights: inner x tokens times tokens x columns
};
constexpr WeightProduct kProducts[] = {
    {Role::qkv_gemm, kHidden, 3 * kHidden, true, false},   {Role::proj_gemm, kHidden, kHidden, true, false},
    {Role::fc1_gemm, kHidden, 4 * kHidden, true, false},   {Role::fc2_gemm, 4 * kHidden, kHidden, true, false},
    {Role::head_gemm, kHidden, kVocabulary, true, false},  {Role::qkv_dgrad, 3 * kHidden, kHidden, false, false},
    {Role::proj_dgrad, kHidden, kHidden, false, false},    {Role::fc1_dgrad, 4 * kHidden, kHidden, false, false},
    {Role::fc2_dgrad, kHidden, 4 * kHidden, false, false}, {Role::head_dgrad, kVocabulary, kHidden, false, false},
    {Role::qkv_wgrad, 3 * kHidden, kHidden, false, true},  {Role::proj_wgrad, kHidden, kHidden, false, true},
    {Role::fc1_wgrad, 4 * kHidden, kHidden, false, true},  {Role::fc2_wgrad, kHidden, 4 * kHidden, false, true},
    {Role::head_wgrad, kVocabulary, kHidden, false, true},
};

std::vector<Input> inputs_of(const WeightProduct& p, int64_t tokens, const char* type, bool odd) {
  const int64_t inner = p.inner - odd, columns = p.columns - odd;
  if (p.of_weights) return {{{inner, tokens}, type}, {{tokens, columns}, type}};
  if (!p.adds) return {{{tokens, inner}, type}, {{inner, columns}, type}};
  const Input one{{}, "Scalar", "1"};
  return {{{columns}, type}, {{tokens, inner}, type}, {{inner, columns}, type}, one, one};
}

std::vector<Input> attention_inputs(Role role, int64_t batch, const char* type) {
  const Input heads{{batch, kSequence, kHeads, kHidden / kHeads}, type};
  const Input none, length{{}, "Scalar", "1024"}, rate{{}, "Scalar", "0."}, no{{}, "Scalar", "False"};
  if (role == Role::attention)
    return {heads, heads, heads, none, none, length, length, rate, no, no, none, none, none, none, none};
  const Input sums{{batch, kHeads, kSequence}, kFloat}, seed{{}, "long int"};
  return {heads, heads, heads, heads, heads, sums, none, none, length, length, rate, no, seed, seed, none, none, none};
}

// Elementwise operators and reductions: as many rows of `width` as the kernel's time allows.
struct Elementwise {
  Role role;
  int64_t rows_of_1024, width;   // at the usual batch
  const char* type;
  int tensors;
};
constexpr Elementwise kElementwise[] = {
    {Role::add, 10, kHidden, kHalf, 2},           {Role::gelu, 9, 4 * kHidden, kHalf, 1},
    {Role::gelu_backward, 8, 4 * kHidden, kHalf, 2}, {Role::add_grad, 7, kHidden, kFloat, 2},
    {Role::loop_mul, 1, kHidden, kFloat, 1},      {Role::loop_add, 1, kHidden, kFloat, 1},
    {Role::loop_addcmul, 1, kHidden, kFloat, 3},  {Role::loop_sqrt, 1, kHidden, kFloat, 1},
    {Role::loop_addcdiv, 1, kHidden, kFloat, 3},
};

// Of all layers, and what the optimizer keeps of each.
Input parameters(int64_t permille) {
  return {{}, "TensorList", "", {12, {std::max<int64_t>(16384 * permille / 1000, 1), kHidden}}};
}

std::vector<Input> other_inputs(Role role, int64_t permille) {
  const auto rows = [&](int64_t usual) { return std::max<int64_t>(usual * permille / 1000, 1); };
  for (const Elementwise& e : kElementwise) {
    if (e.role != role) continue;
    std::vector<Input> inputs;
    for (int i = 0; i < e.tensors; ++i) inputs.push_back({{rows(e.rows_of_1024), 1024, e.width}, e.type});
    if (role == Role::add || role == Role::add_grad || role == Role::loop_add) inputs.push_back({{}, "Scalar", "1"});
    if (role == Role::gelu || role == Role::gelu_backward) inputs.push_back({{}, "", "none"});
    return inputs;
  }
  const auto hidden = [&](int64_t usual) { return Input{{rows(usual), 1024, kHidden}, kHalf}; };
  const Input weights{{kHidden}, kHalf}, size{{}, "ScalarList", "[1024]"}, none;
  const auto mean = [&](int64_t usual) { return Input{{rows(usual), 1024, 1}, kFloat}; };
  const auto mask = [&](int64_t usual) { return Input{{rows(usual), 1024, kHidden}, "bool"}; };
  switch (role) {
    case Role::layer_norm: return {hidden(16), size, weights, weights, {{}, "Scalar", "1.0000000000000001e-05"}};
    case Role::norm_backward:
    case Role::norm_weights_backward:
      return {hidden(24), hidden(24), size, mean(24), mean(24), weights, weights, {{}, "", "[True, True, True]"}};
    case Role::dropout: return {hidden(16), {{}, "Scalar", "0.1"}, {{}, "Scalar", "True"}};
    case Role::dropout_backward: return {hidden(16), mask(16), {{}, "Scalar", "1.1111111111111112"}};
    case Role::grad_norm: return {parameters(permille)};
    case Role::fused_adam:
      return {parameters(permille), parameters(permille), parameters(permille), parameters(permille), none, none};
    case Role::bias_sum:
      return {{{rows(20) * 1024, kHidden}, kHalf}, {{}, "ScalarList", "[0]"}, {{}, "Scalar", "True"}, none};
    case Role::log_softmax:
      return {{{rows(7) * 1024, kVocabulary}, kFloat}, {{}, "Scalar", "1"}, {{}, "Scalar", "False"}};
    case Role::log_softmax_backward:
      return {{{rows(5) * 1024, kVocabulary}, kFloat}, {{rows(5) * 1024, kVocabulary}, kFloat}, {{}, "Scalar", "1"},
              {{}, "Scalar", "6"}};
    default: return {};
  }
}

}  // namespace

ShapeText shapes_of_role(Role role, Gpu gpu, int64_t permille, bool full_precision, bool odd_sizes) {
  // A faster device has more to do in the same time; without tensor cores there is less.
  if (gpu == Gpu::mi300x) permille = permille * 11 / 8;
  const char* type = full_precision ? kFloat : kHalf;
  const int64_t of_matrix = full_precision ? permille / 4 : permille;
  const int64_t batch = std::max<int64_t>(20 * of_matrix / 1000, 1);
  const int64_t tokens = std::max<int64_t>(256 * of_matrix / 1000, 1) * 64;
  for (const WeightProduct& p : kProducts)
    if (p.role == role) return text_of(inputs_of(p, tokens, type, odd_sizes));
  if (role == Role::attention || role == Role::attention_backward) return text_of(attention_inputs(role, batch, type));
  constexpr int64_t kHeadSize = kHidden / kHeads;
  if (role == Role::attention_scores)
    return text_of({{{batch * kHeads, kSequence, kHeadSize}, type}, {{batch * kHeads, kHeadSize, kSequence}, type}});
  if (role == Role::attention_output)
    return text_of({{{batch * kHeads, kSequence, kSequence}, type}, {{batch * kHeads, kSequence, kHeadSize}, type}});
  const std::vector<Input> inputs = other_inputs(role, permille);
  return inputs.empty() ? ShapeText() : text_of(inputs);
}

}  // namespace profgpu::sim
