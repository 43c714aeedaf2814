// What elementwise and reduction kernels compute, from their template arguments.
#include "analyse/kernel_name_forms.h"
#include "base/text.h"

#include <algorithm>

namespace profgpu {
namespace {

using std::string_view;

bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_'; }

// Wrappers, types and words of C++ that say nothing of what is computed.
bool is_wrapper(string_view word) {
  static constexpr string_view kWords[] = {
      "gpu_kernel_impl", "gpu_kernel_impl_nocast", "gpu_index_kernel", "gpu_kernel_with_index", "BinaryFunctor",
      "AUnaryFunctor", "BUnaryFunctor", "UnaryFunctor", "ReduceOp", "func_wrapper_t", "OpaqueType", "Array", "array",
      "_cuda_scatter_gather_internal_kernel", "anonymous", "namespace", "lambda", "operator", "const", "void", "bool",
      "char", "short", "int", "long", "float", "double", "unsigned", "signed", "BFloat16", "Half", "complex",
      "int8_t", "uint8_t", "int16_t", "int32_t", "int64_t", "__half", "__nv_bfloat16", "__hip_bfloat16", "true",
      "false", "DepthToType", "TrivialOffsetCalculator", "OffsetCalculator"};
  return word.starts_with("TensorList") || word.starts_with("FusedOptimizerTensorList") ||
         word.starts_with("Float8_") || std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
}

// "CompareEq" to "compare_eq"; words that have underscores already are only made lower case.
std::string snake(string_view word) {
  std::string out;
  for (size_t i = 0; i < word.size(); ++i) {
    const bool starts_word = is_upper(word[i]) && i > 0 && is_lower(word[i - 1]);
    if (starts_word) out.push_back('_');
    out.push_back(lower(word[i]));
  }
  return out;
}

std::string plain(string_view word) {
  for (const string_view start : {"CUDAFunctor_", "CUDAFunctorOnSelf_", "CUDAFunctorOnOther_", "launch_", "_"})
    if (word.starts_with(start) && word.size() > start.size()) word.remove_prefix(start.size());
  for (bool again = true; again;) {
    again = false;
    for (const string_view end : {"_cuda", "_cuda_out", "_gpu", "_kernel", "_impl", "_scalar", "_functor", "MathFunctor",
                                  "Functor", "CUDAKernelImpl", "KernelImpl", "CUDAKernel", "Ops"})
      if (word.ends_with(end) && word.size() > end.size()) word.remove_suffix(end.size()), again = true;
  }
  return snake(word);
}

// The next word of `text` from `at` that names something: not a scope, not a wrapper.
string_view next_word(string_view text, size_t& at) {
  while (at < text.size()) {
    while (at < text.size() && !is_word(text[at])) ++at;
    const size_t start = at;
    while (at < text.size() && is_word(text[at])) ++at;
    const string_view word = text.substr(start, at - start);
    if (word.empty() || is_digit(word.front()) || text.substr(at).starts_with("::") || is_wrapper(word)) continue;
    return word;
  }
  return {};
}

}  // namespace

std::string functor_name(string_view arguments) {
  size_t at = 0;
  const string_view word = next_word(arguments, at);
  if (word.empty()) return {};
  std::string out = plain(word);
  // Foreach kernels take their operation as a second functor: BinaryOpScalarFunctor<float, 1, 1, 0>, std::plus<float>.
  if (word.starts_with("BinaryOp") || word.starts_with("PointwiseOp") || word.starts_with("UnaryOp"))
    if (const string_view operation = next_word(arguments, at); !operation.empty()) out += " " + plain(operation);
  return out;
}

}  // namespace profgpu
