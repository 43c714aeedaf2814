#include "analyse/work/op_work.h"

#include <algorithm>
#include <charconv>

#include "analyse/work/op_sizes.h"
#include "base/decimal.h"
#include "base/text.h"

namespace profgpu {
namespace {

struct ElementType {
  std::string_view name;
  int bits;
  Precision precision;
};

// As typeid and c10 name them, as ScalarType does, and as older profilers and execution traces do. The longer of two
// that begin alike comes first.
constexpr ElementType kElementTypes[] = {
    {"float", 32, Precision::kFp32},
    {"c10::BFloat16", 16, Precision::kBf16},
    {"c10::Half", 16, Precision::kFp16},
    {"double", 64, Precision::kFp64},
    {"c10::Float8", 8, Precision::kFp8},
    {"c10::Float4", 8, Precision::kFp4},   // two in a byte, which is what counts as an element
    {"signed char", 8, Precision::kInt8},
    {"unsigned char", 8, Precision::kInt8},
    {"bool", 8, Precision::kUnknown},
    {"long", 64, Precision::kUnknown},     // "long int", "long long"
    {"int", 32, Precision::kUnknown},
    {"short", 16, Precision::kUnknown},
    {"unsigned short", 16, Precision::kUnknown},
    {"unsigned int", 32, Precision::kUnknown},
    {"unsigned long", 64, Precision::kUnknown},
    {"c10::qint8", 8, Precision::kInt8},
    {"c10::quint8", 8, Precision::kInt8},
    {"Float8", 8, Precision::kFp8},
    {"Float4", 8, Precision::kFp4},
    {"Float", 32, Precision::kFp32},
    {"BFloat16", 16, Precision::kBf16},
    {"Half", 16, Precision::kFp16},
    {"Double", 64, Precision::kFp64},
    {"Char", 8, Precision::kInt8},
    {"Byte", 8, Precision::kInt8},
    {"Bool", 8, Precision::kUnknown},
    {"Long", 64, Precision::kUnknown},
    {"Int", 32, Precision::kUnknown},
    {"Short", 16, Precision::kUnknown},
    {"c10::complex<float>", 64, Precision::kUnknown},
    {"c10::complex<double>", 128, Precision::kUnknown},
    {"c10::complex<c10::Half>", 32, Precision::kUnknown},
};

const ElementType* element_type(std::string_view name) {
  const auto* const it =
      std::ranges::find_if(kElementTypes, [&](const ElementType& type) { return name.starts_with(type.name); });
  return it == std::end(kElementTypes) ? nullptr : it;
}

// The texts of a list of strings, ["", "[1, 1]"], each for `add`. False: it is no such list.
template <class Add>
bool each_text(std::string_view list, Add add) {
  for (size_t at = list.find('"'); at != list.npos; at = list.find('"', at + 1)) {
    const size_t from = at + 1;
    for (at = from; at < list.size() && list[at] != '"'; ++at) at += list[at] == '\\';
    if (at >= list.size()) return false;
    add(list.substr(from, at - from));
  }
  return true;
}

// "[[2, 3], [[4], [5]], []]": a tensor, a list of tensors, and what has no sizes.
bool read_shapes(std::string_view text, std::vector<OpInput>& inputs) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '[') {
      if (++depth == 2) inputs.emplace_back();
      if (depth == 3) inputs.back().list.emplace_back();
      if (depth > 3) return false;
    } else if (c == ']') {
      if (--depth == 0) return true;
    } else if (is_digit(c)) {
      int64_t size = 0;
      const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), size);
      if (depth < 2 || error != std::errc()) return false;
      (depth == 2 ? inputs.back().shape : inputs.back().list.back()).push_back(size);
      i = static_cast<size_t>(end - text.data()) - 1;
    } else if (c != ',' && c != ' ' && c != '\n') {
      return false;
    }
  }
  return false;
}

// Elements in one place, of a tensor with strides of 0.
int64_t repeats_of(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  int64_t repeats = 1;
  for (size_t i = 0; i < shape.size() && shape.size() == strides.size(); ++i)
    if (strides[i] == 0 && shape[i] > 1 && __builtin_mul_overflow(repeats, shape[i], &repeats)) return 1;
  return repeats;
}

// A list of tensors; profilers before PyTorch 2.1 say no more of it.
bool is_unrecorded_list(const OpInputs& inputs, const OpInput& input) {
  return (input.type == "TensorList" || input.type == "GenericList") && !inputs.has_lists();
}

}  // namespace

std::string_view precision_name(Precision precision) {
  constexpr std::string_view kNames[kPrecisions] = {"", "fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8"};
  return kNames[static_cast<size_t>(precision)];
}

int OpInput::element_bits() const {
  const ElementType* const known = element_type(type);
  return known != nullptr ? known->bits : 0;
}

Precision precision_of(const OpInput& input) {
  const ElementType* const known = element_type(input.type);
  return known != nullptr ? known->precision : Precision::kUnknown;
}

const OpInput& OpInputs::operator[](size_t place) const {
  static const OpInput kNone;
  return place < at.size() ? at[place] : kNone;
}

bool OpInputs::has_lists() const {
  return std::ranges::any_of(at, [](const OpInput& input) { return !input.list.empty(); });
}

OpInputs op_inputs(std::string_view name, std::string_view shapes, std::string_view types, std::string_view values,
                   std::string_view strides) {
  OpInputs inputs{.name = name, .at = {}};
  if (!read_shapes(shapes, inputs.at)) inputs.at.clear();
  constexpr size_t kMostInputs = 64;
  size_t place = 0, values_seen = 0;
  const size_t most = inputs.at.empty() ? 0 : kMostInputs;
  each_text(types, [&](std::string_view text) {
    if (place < inputs.at.size()) inputs.at[place++].type = text;
  });
  // Some recorders write sizes of tensors alone, and values of all inputs.
  each_text(values, [&](std::string_view text) {
    if (values_seen == inputs.at.size() && values_seen < most) inputs.at.emplace_back();
    if (values_seen < inputs.at.size()) inputs.at[values_seen++].value = text;
  });
  std::vector<OpInput> steps;
  if (!strides.empty() && read_shapes(strides, steps))
    for (size_t i = 0; i < std::min(steps.size(), inputs.at.size()); ++i) {
      OpInput& input = inputs.at[i];
      input.repeats = repeats_of(input.shape, steps[i].shape);
      if (steps[i].shape.size() == input.shape.size()) input.strides = std::move(steps[i].shape);
    }
  return inputs;
}

Amount product_of(std::span<const int64_t> sizes) {
  Amount all = 1;
  for (const int64_t size : sizes) all = all * size;
  return all;
}

bool is_tensor(const OpInput& input) { return input.element_bits() > 0; }

Amount bytes_of(const OpInputs& inputs, size_t place) {
  const OpInput& input = inputs[place];
  if (input.repeats <= 1) return bytes_like(inputs, place);
  return bytes_of(elements_of(input) / input.repeats, input.element_bits());
}

Amount bytes_like(const OpInputs& inputs, size_t place) {
  const OpInput& input = inputs[place];
  if (is_unrecorded_list(inputs, input)) return Amount::unknown();
  if (input.list.empty()) return is_tensor(input) ? bytes_of(elements_of(input), input.element_bits()) : 0;
  Amount elements = 0;
  for (const std::vector<int64_t>& shape : input.list) elements = elements + product_of(shape);
  return bytes_of(elements, inputs.list_bits);
}

Amount bytes_of(const OpInputs& inputs, size_t first, size_t end) {
  Amount all = 0;
  for (size_t i = first; i < std::min(end, inputs.at.size()); ++i) all = all + bytes_of(inputs, i);
  return all;
}

std::optional<std::vector<int64_t>> broadcast(std::span<const std::vector<int64_t>> shapes) {
  std::vector<int64_t> all;
  for (const std::vector<int64_t>& shape : shapes) {
    if (shape.size() > all.size()) all.insert(all.begin(), shape.size() - all.size(), 1);
    for (size_t i = 0; i < shape.size(); ++i) {
      int64_t& size = all[all.size() - 1 - i];
      const int64_t other = shape[shape.size() - 1 - i];
      if (size == 1) size = other;
      else if (other != 1 && other != size) return std::nullopt;
    }
  }
  return all;
}

std::optional<int64_t> whole_value(const OpInput& input) { return exact_number<int64_t>(input.value); }

std::optional<bool> flag_value(const OpInput& input) {
  if (input.value == "True" || input.value == "1") return true;
  return input.value == "False" || input.value == "0" ? std::optional(false) : std::nullopt;
}

std::optional<std::vector<int64_t>> list_value(const OpInput& input) {
  if (const auto one = whole_value(input)) return std::vector{*one};
  std::string_view text = input.value;
  const bool tuple = text.starts_with('(') && text.ends_with(')');
  if (!tuple && (!text.starts_with('[') || !text.ends_with(']'))) return std::nullopt;
  std::vector<int64_t> list;
  for (const std::string_view piece : pieces_of(text.substr(1, text.size() - 2), ',')) {
    const auto value = exact_number<int64_t>(without_blanks(piece));
    if (!value) return std::nullopt;
    list.push_back(*value);
  }
  return list;
}

std::optional<std::vector<bool>> flag_list_value(const OpInput& input) {
  if (!input.value.starts_with('[') && !input.value.starts_with('(')) return std::nullopt;
  std::vector<bool> list;
  for (const std::string_view piece : pieces_of(input.value.substr(1), ',')) list.push_back(contains(piece, "True"));
  return list;
}

int bits_of_scalar_type(int64_t number) {
  // c10/core/ScalarType.h: Byte, Char, Short, Int, Long, Half, Float, Double, ComplexHalf, ComplexFloat, ComplexDouble,
  // Bool, QInt8, QUInt8, QInt32, BFloat16; from 23 on the forms of Float8.
  constexpr int kBits[] = {8, 8, 16, 32, 64, 16, 32, 64, 32, 64, 128, 8, 8, 8, 32, 16};
  if (number >= 0 && number < static_cast<int64_t>(std::size(kBits))) return kBits[number];
  return number >= 23 && number <= 26 ? 8 : 0;
}

}  // namespace profgpu
