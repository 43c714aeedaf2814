#include "base/decimal.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "base/text.h"

namespace profgpu {
namespace {

struct Parsed {
  unsigned __int128 digits = 0;  // significant digits kept, at most 30
  int64_t exponent = 0;          // value = digits * 10^exponent, but for digits dropped
  bool negative = false;
};

// Digits past the 30th cannot change a result that fits int64_t except in ties, where they count as zeros.
bool parse(std::string_view s, Parsed& out) {
  size_t i = 0;
  if (i < s.size() && (s[i] == '-' || s[i] == '+')) out.negative = s[i++] == '-';
  int kept = 0;
  bool any = false, fraction = false;
  for (; i < s.size(); ++i) {
    if (s[i] == '.' && !fraction) {
      fraction = true;
      continue;
    }
    if (!is_digit(s[i])) break;
    any = true;
    if (kept < 30) {
      out.digits = out.digits * 10 + static_cast<unsigned>(s[i] - '0');
      kept += out.digits != 0;
      out.exponent -= fraction;
    } else {
      out.exponent += !fraction;
    }
  }
  if (!any) return false;
  if (i == s.size()) return true;
  if (s[i] != 'e' && s[i] != 'E') return false;
  if (++i < s.size() && s[i] == '+') ++i;
  int exponent = 0;
  const auto [end, error] = std::from_chars(s.data() + i, s.data() + s.size(), exponent);
  if (error != std::errc() || end != s.data() + s.size()) return false;
  out.exponent += exponent;
  return true;
}

std::optional<int64_t> slow_scaled(std::string_view text, int scale) {
  Parsed p;
  if (!parse(text, p)) return std::nullopt;
  if (p.digits == 0) return 0;
  int64_t shift = p.exponent + scale;
  constexpr unsigned __int128 kLimit = INT64_MAX;
  for (; shift > 0; --shift) {
    if (p.digits > kLimit) return std::nullopt;
    p.digits *= 10;
  }
  unsigned last = 0;
  for (; shift < 0 && (p.digits != 0 || last != 0); ++shift) {
    last = static_cast<unsigned>(p.digits % 10);
    p.digits /= 10;
  }
  if (last >= 5) ++p.digits;
  if (p.digits > kLimit) return std::nullopt;
  const auto value = static_cast<int64_t>(p.digits);
  return p.negative ? -value : value;
}

constexpr int64_t kPowers[] = {1, 10, 100, 1'000, 10'000, 100'000, 1'000'000, 10'000'000, 100'000'000};
// Whole parts whose nanoseconds fit, by scale.
constexpr int64_t kMaxWhole[] = {INT64_MAX, 900'000'000'000'000'000, 90'000'000'000'000'000, 9'000'000'000'000'000};

}  // namespace

std::optional<int64_t> scaled_decimal(std::string_view text, int scale) {
  // Fast path: microseconds and less, a whole part whose nanoseconds fit, and a fraction that needs no rounding.
  const char* p = text.data();
  const char* end = p + text.size();
  const bool negative = p < end && *p == '-';
  p += negative;
  const char* first = p;
  int64_t value = 0;
  while (p < end && is_digit(*p) && p - first < 18) value = value * 10 + (*p++ - '0');
  if (p == first || scale < 0 || scale > 3 || value > kMaxWhole[scale]) return slow_scaled(text, scale);
  int missing = scale;
  if (p < end && *p == '.') {
    for (++p; p < end && is_digit(*p) && missing > 0; --missing) value = value * 10 + (*p++ - '0');
  }
  if (p != end) return slow_scaled(text, scale);
  value *= kPowers[missing];
  return negative ? -value : value;
}

std::optional<int64_t> padded_scaled_decimal(std::string_view text, int scale) {
  if (text.empty() || scale < 0 || scale > 3) return scaled_decimal(text, scale);
  const bool negative = text.front() == '-';
  const char* p = text.data() + negative;
  const char* const end = text.data() + text.size();
  Digits digits = digits_at(p);   // which may go on behind the text: then p is past the end
  int64_t value = digits.value;
  p += digits.count;
  if (digits.count == 8 && p < end) {
    digits = digits_at(p);
    value = value * kPowers[digits.count] + digits.value;
    p += digits.count;
  } else if (digits.count == 0) {
    return scaled_decimal(text, scale);
  }
  if (value > kMaxWhole[scale]) return scaled_decimal(text, scale);
  int missing = scale;
  if (p < end && *p == '.') {
    digits = digits_at(p + 1);
    missing -= digits.count;
    if (missing < 0) return scaled_decimal(text, scale);
    value = value * kPowers[digits.count] + digits.value;
    p += 1 + digits.count;
  }
  if (p != end) return scaled_decimal(text, scale);
  value *= kPowers[missing];
  return negative ? -value : value;
}

std::optional<LeadingNumber> leading_number(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  return LeadingNumber{value, {rest, static_cast<size_t>(end - rest)}};
}

std::optional<double> real_number(std::string_view text) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  const auto number = leading_number(text);
  return number && number->rest.empty() ? std::optional(number->value) : std::nullopt;
}

std::optional<uint64_t> hex_number(std::string_view text) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value, 16);
  return error == std::errc() && rest == end ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> duration_ns(std::string_view text) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {{"ns", 1},      {"us", 1e3},  {"µs", 1e3},
                                                                   {"ms", 1e6},    {"min", 6e10}, {"m", 6e10},
                                                                   {"h", 3.6e12},  {"s", 1e9}};
  double scale = 1e9;
  for (const auto& [unit, ns] : kUnits) {
    if (!text.ends_with(unit)) continue;
    text.remove_suffix(unit.size());
    scale = ns;
    break;
  }
  while (text.ends_with(' ')) text.remove_suffix(1);
  const auto number = real_number(text);
  if (!number || *number < 0 || *number * scale > 9e18) return std::nullopt;
  return static_cast<int64_t>(*number * scale + 0.5);
}

}  // namespace profgpu
