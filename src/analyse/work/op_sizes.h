// Sizes of inputs multiplied and added up without overflow, and what recorded values say. For the families of this
// room.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "analyse/work/op_work.h"

namespace profgpu {

/// A count that is not negative and fits; all that is made of another one is neither.
class Amount {
 public:
  constexpr Amount(int64_t value) : value_(value), known_(value >= 0) {}   // NOLINT: a number is one
  static constexpr Amount unknown() { return -1; }

  friend constexpr Amount operator*(Amount a, Amount b) {
    a.known_ = a.known_ && b.known_ && !__builtin_mul_overflow(a.value_, b.value_, &a.value_);
    return a;
  }
  friend constexpr Amount operator+(Amount a, Amount b) {
    a.known_ = a.known_ && b.known_ && !__builtin_add_overflow(a.value_, b.value_, &a.value_);
    return a;
  }
  friend constexpr Amount operator-(Amount a, Amount b) {
    return a.known_ && b.known_ ? Amount(a.value_ - b.value_) : unknown();
  }
  friend constexpr Amount operator/(Amount a, int64_t b) { return a.known_ && b > 0 ? Amount(a.value_ / b) : unknown(); }
  friend constexpr Amount least(Amount a, Amount b) {
    return a.known_ && b.known_ ? Amount(a.value_ < b.value_ ? a.value_ : b.value_) : unknown();
  }
  [[nodiscard]] constexpr int64_t or_unknown() const { return known_ ? value_ : -1; }

 private:
  int64_t value_;
  bool known_;
};

/// Of all sizes; 1 of none.
Amount product_of(std::span<const int64_t> sizes);
/// Without the first `skipped`.
inline Amount product_after(const std::vector<int64_t>& sizes, size_t skipped) {
  return sizes.size() < skipped ? Amount::unknown() : product_of(std::span(sizes).subspan(skipped));
}
inline Amount elements_of(const OpInput& input) { return product_of(input.shape); }
/// Of so many elements of this many bits.
inline Amount bytes_of(Amount elements, int bits) { return bits > 0 ? elements * bits / 8 : Amount::unknown(); }
/// What lies in memory of a tensor, or of a list of them; 0: a number, or no value.
Amount bytes_of(const OpInputs& inputs, size_t place);
/// Of a new tensor of the same shape and type: more where the input is expanded.
Amount bytes_like(const OpInputs& inputs, size_t place);
/// Of the inputs from `first` up to `end`.
Amount bytes_of(const OpInputs& inputs, size_t first, size_t end);
/// Of a tensor: its own elements; of a list: all of them together.
bool is_tensor(const OpInput& input);

/// Of what comes of shapes that are broadcast against each other; nothing: they do not fit.
std::optional<std::vector<int64_t>> broadcast(std::span<const std::vector<int64_t>> shapes);

/// "128", "-1"; nothing: not recorded, or no whole number.
std::optional<int64_t> whole_value(const OpInput& input);
/// "True"; nothing: not recorded.
std::optional<bool> flag_value(const OpInput& input);
/// "[1, 1]", or one number alone; nothing: not recorded.
std::optional<std::vector<int64_t>> list_value(const OpInput& input);
/// "[True, True, False]": how often it is so; nothing: not recorded.
std::optional<std::vector<bool>> flag_list_value(const OpInput& input);

/// Bits of an element of PyTorch's ScalarType of that number, which is what `out_dtype` is recorded as; 0: unknown.
int bits_of_scalar_type(int64_t number);

/// The precision that products of such elements have.
Precision precision_of(const OpInput& input);

/// Moves bytes, and multiplies nothing.
inline OpWork moving(Amount bytes) { return {.flops = 0, .bytes = bytes.or_unknown()}; }
/// Of 2 for each multiply-add.
inline OpWork multiplying(Amount multiply_adds, Amount bytes, const OpInput& of_type) {
  return {.flops = (multiply_adds * 2).or_unknown(), .bytes = bytes.or_unknown(), .precision = precision_of(of_type)};
}

}  // namespace profgpu
