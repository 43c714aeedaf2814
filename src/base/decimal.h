// Exact numbers from decimal text.
#pragma once

#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace profgpu {

/// Decimal text times 10^scale, rounded half away from zero: scaled_decimal("12.3456", 3) is 12346. Accepts a sign, a
/// fraction and an exponent; nullopt for anything else and for results that do not fit int64_t.
std::optional<int64_t> scaled_decimal(std::string_view text, int scale);

struct Digits {
  int count;
  int64_t value;
};

/// The digits that eight bytes begin with. Neighbours are joined in pairs, pairs in fours, fours in eight.
[[gnu::always_inline]] inline Digits digits_at(const char* p) {
  uint64_t v;
  std::memcpy(&v, p, 8);
  if constexpr (std::endian::native == std::endian::big) v = __builtin_bswap64(v);
  v ^= 0x3030303030303030;   // digits are their value now, all else more than nine
  const uint64_t others = (((v & 0x7F7F7F7F7F7F7F7F) + 0x7676767676767676) | v) & 0x8080808080808080;
  if ((others & 0x80) != 0) return {0, 0};
  const int count = others == 0 ? 8 : __builtin_ctzll(others) / 8;
  v <<= 64 - 8 * count;   // as if zeros came before them
  v = (v * 10 + (v >> 8)) & 0x00FF00FF00FF00FF;
  v = (v * 100 + (v >> 16)) & 0x0000FFFF0000FFFF;
  v = (v * 10000 + (v >> 32)) & 0xFFFFFFFF;
  return {count, static_cast<int64_t>(v)};
}

/// The same, for text that eight readable bytes follow: digits are taken eight at a time, however many there are.
std::optional<int64_t> padded_scaled_decimal(std::string_view text, int scale);

/// Likewise of a whole number; most have no more than eight digits.
inline std::optional<int64_t> padded_whole_number(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const Digits digits = digits_at(text.data());
  if (static_cast<size_t>(digits.count) == text.size()) return digits.value;
  return padded_scaled_decimal(text, 0);
}

inline std::optional<int64_t> whole_number(std::string_view text) { return scaled_decimal(text, 0); }
/// The whole text as from_chars() reads it: no '+', no blanks; of whole numbers no point and no exponent either.
template <class Number>
std::optional<Number> exact_number(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}
/// A floating-point number; nullopt if the text is none or not finite.
std::optional<double> real_number(std::string_view text);
/// The finite number that a text begins with, and what follows it.
struct LeadingNumber {
  double value;
  std::string_view rest;
};
std::optional<LeadingNumber> leading_number(std::string_view text);
/// A whole number of up to 64 bits in hexadecimal, without "0x".
std::optional<uint64_t> hex_number(std::string_view text);

// Times as people type them.

/// Nanoseconds of "0.2", "0.2s", "200ms", "500us", "2m", "1h"; a bare number counts seconds. Nullopt: no duration of 0
/// or more.
std::optional<int64_t> duration_ns(std::string_view text);

}  // namespace profgpu
