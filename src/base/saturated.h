// Sums and differences that saturate instead of overflowing, for times from files.
#pragma once

#include <cstdint>

namespace profgpu {

constexpr int64_t saturated_add(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? (b < 0 ? INT64_MIN : INT64_MAX) : sum;
}

constexpr int64_t saturated_sub(int64_t a, int64_t b) {
  int64_t difference = 0;
  return __builtin_sub_overflow(a, b, &difference) ? (b < 0 ? INT64_MAX : INT64_MIN) : difference;
}

/// Of numbers that are not negative.
constexpr int64_t saturated_product(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

constexpr int64_t saturated_distance(int64_t a, int64_t b) { return a < b ? saturated_sub(b, a) : saturated_sub(a, b); }

constexpr void add_saturated(int64_t& sum, int64_t part) { sum = saturated_add(sum, part); }

}  // namespace profgpu
