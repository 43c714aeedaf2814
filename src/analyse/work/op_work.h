// How much an operator computes and moves, from what a profiler recorded of its inputs.
//
// A family of operators is a file of this room and a line in registry.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace profgpu {

/// What products are computed in: the inputs' type, or TF32 where the kernel rounds FP32 to it.
enum class Precision : uint8_t { kUnknown, kFp64, kFp32, kTf32, kBf16, kFp16, kFp8, kFp4, kInt8 };
constexpr int kPrecisions = 9;
/// "fp64", "tf32" ...; empty: unknown.
std::string_view precision_name(Precision precision);

/// Of matrices: m rows and k columns by k rows and n columns, so many of each.
struct ProductSizes {
  int64_t batch = 0, m = 0, n = 0, k = 0;   ///< batch 0: it is no such product, or one that is too large
  bool operator==(const ProductSizes&) const = default;
};

/// Of a convolution, forward or backward: what decides which kernels suit it.
struct ConvolutionSizes {
  int64_t channels = 0;       ///< of the input, in one group; 0: it is no convolution
  int64_t groups = 1;
  int64_t points = 0;         ///< of all results of the batch, without channels; 0: unknown
  int64_t dilation = 1;       ///< the largest
  bool transposed = false;
  bool operator==(const ConvolutionSizes&) const = default;
};

/// Of an attention.
struct AttentionSizes {
  int64_t head_size = 0;      ///< 0: it is none
  int64_t queries = 0, keys = 0;   ///< of one sequence, or of their mean
  bool operator==(const AttentionSizes&) const = default;
};

/// Of one call of an operator.
struct OpWork {
  /// As torch.utils.flop_counter counts: 2 for each multiply-add of products, convolutions and attention, 0 for
  /// everything else. -1: unknown.
  int64_t flops = -1;
  /// Of `flops`, what a kernel need not compute: the half that a causal mask hides, and what the counter adds for
  /// groups of a convolution's backward pass. Negative: what the counter leaves out, of numbers that are packed.
  int64_t skipped_flops = 0;
  /// The least that must move through the device's memory: inputs and outputs once. -1: unknown.
  int64_t bytes = -1;
  Precision precision = Precision::kUnknown;
  bool lower_bound = false;     ///< flops are at least this: some sizes are not in the trace
  ProductSizes product = {};
  ConvolutionSizes convolution = {};
  AttentionSizes attention = {};

  /// What a kernel has to compute; -1: unknown. Rates and limits are of these.
  [[nodiscard]] int64_t needed_flops() const { return flops < 0 ? -1 : flops - skipped_flops; }
  bool operator==(const OpWork&) const = default;
};

/// One input as the profiler wrote it.
struct OpInput {
  std::vector<int64_t> shape;                ///< of a tensor; empty: a number, one without dimensions, or no value
  std::vector<std::vector<int64_t>> list;    ///< of a list of tensors
  std::string_view type;                     ///< "c10::BFloat16", "Scalar", "ScalarList", "TensorList", ""
  std::string_view value;                    ///< of a number or a list of them: "True", "[1, 1]"; empty: not recorded
  std::vector<int64_t> strides;              ///< as many as `shape` has sizes; empty: not recorded
  int64_t repeats = 1;                       ///< how many of its elements share one place in memory: it is expanded

  /// Of one element; 0: no tensor, or of an unknown type.
  [[nodiscard]] int element_bits() const;
};


struct OpInputs {
  std::string_view name;     ///< "aten::addmm"
  std::vector<OpInput> at;   ///< in the order of the operator's schema
  int list_bits = 0;         ///< of the elements of lists of tensors, of which no type is recorded; 0: unknown

  /// Without shape and value where there are fewer.
  [[nodiscard]] const OpInput& operator[](size_t place) const;
  /// Whether bytes depend on list_bits.
  [[nodiscard]] bool has_lists() const;
};
/// From the trace's own texts, see OpArgs. Nothing in `at`: they are damaged, or were not recorded.
OpInputs op_inputs(std::string_view name, std::string_view shapes, std::string_view types, std::string_view values,
                   std::string_view strides = "");

/// Operators whose inputs have the same form.
struct OpForm {
  std::string_view names;    ///< with blanks between them; one that ends with * is a prefix
  OpWork (*work)(const OpInputs& inputs);
};
struct OpFamily {
  std::string_view name;     ///< "products", "attention"
  std::span<const OpForm> forms;
};
std::span<const OpFamily* const> op_families();
/// Of an operator, or of its form in place (aten::add_); null: none has it.
const OpFamily* find_family(std::string_view op);
/// All unknown where no family has it or its inputs do not tell.
OpWork op_work(const OpInputs& inputs);

/// What an engine says of a step: the keys that attention reads, pairs of a query and a key of its sequence, those of
/// them that a causal mask hides, and the tokens that it computes. Over all sequences.
struct AttendedKeys {
  int64_t keys = 0, pairs = 0, masked_pairs = 0, tokens = 0;
};
/// Whether the operator attends to a cache of keys: its inputs alone do not tell how many.
bool attends_to_cache(std::string_view op);
OpWork cached_attention(const OpInputs& inputs, const AttendedKeys& attended);

}  // namespace profgpu
