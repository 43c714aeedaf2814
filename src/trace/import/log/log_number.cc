#include <array>
#include <cmath>
#include <limits>

#include "base/decimal.h"
#include "base/text.h"
#include "trace/import/log/log_line.h"

namespace profgpu {
namespace {

std::string_view blanks_skipped(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t' || text.front() == '\'' || text.front() == '"'))
    text.remove_prefix(1);
  return text;
}

// The characters of a decimal number at the front, with commas between thousands left out.
std::string digits_at_front(std::string_view text, std::string_view& rest) {
  std::string number;
  size_t i = 0;
  bool digit = false, exponent = false, fraction = false;
  if (i < text.size() && (text[i] == '-' || text[i] == '+')) {
    if (text[i] == '-') number += '-';
    ++i;
  }
  for (; i < text.size() && number.size() < 48; ++i) {
    const char c = text[i];
    if (is_digit(c)) {
      digit = true, number += c;
    } else if (c == '.' && !fraction && !exponent) {
      fraction = true, number += c;
    } else if ((c == 'e' || c == 'E') && digit && !exponent && i + 1 < text.size() &&
               (is_digit(text[i + 1]) ||
                ((text[i + 1] == '-' || text[i + 1] == '+') && i + 2 < text.size() && is_digit(text[i + 2])))) {
      exponent = true, number += c;
      if (!is_digit(text[i + 1])) number += text[++i];
    } else if (c == ',' && digit && !fraction && i + 3 < text.size() && is_digit(text[i + 1]) &&
               is_digit(text[i + 2]) && is_digit(text[i + 3]) && (i + 4 >= text.size() || !is_digit(text[i + 4]))) {
      continue;
    } else {
      break;
    }
  }
  if (!digit) return {};
  if (number.back() == '.') number.pop_back();  // the end of a sentence, or "3."
  rest = text.substr(i);
  return number;
}

// "12.3K": programs that print large numbers for people.
int suffix_exponent(std::string_view rest) {
  if (rest.empty() || (rest.size() > 1 && (is_letter(rest[1]) || is_digit(rest[1])))) return 0;
  switch (rest.front()) {
    case 'K':
      return 3;
    case 'M':
      return 6;
    case 'B':
    case 'G':
      return 9;
    case 'T':
      return 12;
    default:
      return 0;
  }
}

// Most numbers are a few digits and a point. Their digits as a whole number, and how many stand behind the point;
// what is more than that is for digits_at_front().
struct Plain {
  int64_t digits = 0;
  int fraction = 0;
  bool known = false;
};

Plain plain_number(std::string_view text, std::string_view& rest) {
  Plain p;
  size_t i = 0, count = 0;
  const bool negative = !text.empty() && text.front() == '-';
  i += negative;
  for (; i < text.size() && is_digit(text[i]) && count <= 15; ++i, ++count) p.digits = p.digits * 10 + (text[i] - '0');
  if (count == 0 || count > 15) return p;
  if (i + 1 < text.size() && text[i] == '.' && is_digit(text[i + 1]))
    for (++i; i < text.size() && is_digit(text[i]) && count <= 15; ++i, ++count, ++p.fraction)
      p.digits = p.digits * 10 + (text[i] - '0');
  const char next = i < text.size() ? text[i] : ' ';
  p.known = count <= 15 && (next == ' ' || next == '|' || next == ')' || next == 'm' || next == 's' || next == '%');
  if (negative) p.digits = -p.digits;
  rest = text.substr(std::min(i, text.size()));
  return p;
}

constexpr std::array<double, 16> kPowers = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                            1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
constexpr std::array<int64_t, 10> kWholePowers = {1,       10,        100,        1000,        10'000,
                                                  100'000, 1'000'000, 10'000'000, 100'000'000, 1'000'000'000};

std::optional<int64_t> scaled(std::string_view text, int scale, std::string_view* rest) {
  std::string_view behind;
  if (const Plain p = plain_number(blanks_skipped(text), behind); p.known && p.fraction <= scale) {
    int64_t value = 0;
    if (rest != nullptr) *rest = behind;
    return __builtin_mul_overflow(p.digits, kWholePowers[static_cast<size_t>(scale - p.fraction)], &value)
               ? std::nullopt
               : std::optional(value);
  }
  const std::string number = digits_at_front(blanks_skipped(text), behind);
  if (number.empty()) return std::nullopt;
  const int exponent = suffix_exponent(behind);
  if (exponent > 0) behind.remove_prefix(1);
  if (rest != nullptr) *rest = behind;
  return scaled_decimal(number, scale + exponent);
}

// The end of a number of digits with one comma, which begins at `at`; `comma`: where that is. npos: there is none, or
// it goes on, as "1,234,567" and dates do.
size_t end_of_comma_number(std::string_view text, size_t at, size_t& comma) {
  size_t end = at;
  while (end < text.size() && is_digit(text[end])) ++end;
  if (end == at || end + 1 >= text.size() || text[end] != ',' || !is_digit(text[end + 1])) return text.npos;
  comma = end++;
  while (end < text.size() && is_digit(text[end])) ++end;
  const bool joins = end + 1 < text.size() && (text[end] == ',' || text[end] == '.');
  const bool goes_on = joins && is_digit(text[end + 1]);
  return goes_on ? text.npos : end;
}

bool begins_number(std::string_view text, size_t at) {
  return is_digit(text[at]) && (at == 0 || has(" :=|\t(-", text.substr(at - 1, 1)));
}

}  // namespace

bool has_decimal_comma(std::string_view text) {
  constexpr size_t kLeast = 2;   // digits behind it: "0,1" may be two numbers
  if (text.find(',') == text.npos) return false;
  for (size_t at = text.find("0,"); at != text.npos; at = text.find("0,", at + 1)) {
    size_t comma = 0;
    const bool of_key = at > 0 && has(" :=", text.substr(at - 1, 1));
    const size_t end = of_key ? end_of_comma_number(text, at, comma) : text.npos;
    if (end != text.npos && comma == at + 1 && end > comma + kLeast) return true;
  }
  return false;
}

void point_for_comma(std::string& text) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (!begins_number(text, at)) continue;
    size_t comma = 0;
    const size_t end = end_of_comma_number(text, at, comma);
    if (end != text.npos) text[comma] = '.', at = end;
  }
}

bool is_not_finite(std::string_view text) {
  text = blanks_skipped(text);
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
  for (const std::string_view word : {"infinity", "nan", "inf"}) {
    if (lower_case(text.substr(0, word.size())) != word) continue;
    const char next = text.size() == word.size() ? ' ' : text[word.size()];
    return !is_letter(next) && !is_digit(next) && next != '_';
  }
  return false;
}

std::optional<double> printed_number(std::string_view text, std::string_view* rest) {
  std::string_view behind;
  if (const Plain p = plain_number(blanks_skipped(text), behind); p.known) {
    if (rest != nullptr) *rest = behind;
    return static_cast<double>(p.digits) /
           kPowers[static_cast<size_t>(p.fraction)];  // both exact, so is the quotient's rounding
  }
  const std::string number = digits_at_front(blanks_skipped(text), behind);
  if (number.empty()) return std::nullopt;
  const int exponent = suffix_exponent(behind);
  if (exponent > 0) behind.remove_prefix(1);
  if (rest != nullptr) *rest = behind;
  auto value = real_number(number);
  if (value && exponent > 0) *value *= std::pow(10.0, exponent);
  return value;
}

std::optional<int64_t> leading_integer(std::string_view text, std::string_view* rest) { return scaled(text, 0, rest); }
std::optional<int64_t> leading_ms(std::string_view text, std::string_view* rest) { return scaled(text, 6, rest); }
std::optional<int64_t> leading_seconds(std::string_view text, std::string_view* rest) { return scaled(text, 9, rest); }

std::optional<std::string_view> after(std::string_view text, std::string_view key) {
  const size_t at = place_of(text, key);
  return at == text.npos ? std::nullopt : std::optional(text.substr(at + key.size()));
}

std::optional<double> number_after(std::string_view text, std::string_view key) {
  const auto rest = after(text, key);
  return rest ? printed_number(*rest) : std::nullopt;
}

std::optional<int64_t> integer_after(std::string_view text, std::string_view key) {
  const auto rest = after(text, key);
  return rest ? leading_integer(*rest) : std::nullopt;
}

std::optional<int64_t> leading_bytes(std::string_view text) {
  std::string_view rest;
  const std::string number = digits_at_front(blanks_skipped(text), rest);
  const auto value = number.empty() ? std::nullopt : real_number(number);
  if (!value || *value < 0) return std::nullopt;
  rest = blanks_skipped(rest);
  double factor = 1;
  if (!rest.empty()) {
    const char unit = upper(rest.front());
    const bool bytes = rest.size() > 1 && (rest[1] == 'B' || rest[1] == 'i');
    if (unit == 'K' && bytes) factor = 1024.0;
    if (unit == 'M' && bytes) factor = 1024.0 * 1024;
    if (unit == 'G' && bytes) factor = 1024.0 * 1024 * 1024;
    if (unit == 'T' && bytes) factor = 1024.0 * 1024 * 1024 * 1024;
  }
  const double bytes = *value * factor;
  if (bytes > static_cast<double>(std::numeric_limits<int64_t>::max() / 2)) return std::nullopt;
  return std::llround(bytes);
}

std::optional<std::string_view> keyed_value(std::string_view text, std::initializer_list<std::string_view> keys) {
  return keyed_value(text, text, keys);
}

std::optional<std::string_view> keyed_value(std::string_view text, std::string_view searched,
                                            std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    for (size_t at = place_of(searched, key); at != text.npos; at = place_of(searched, key, at + 1)) {
      if (at > 0 && (is_letter(text[at - 1]) || is_digit(text[at - 1]) || text[at - 1] == '_')) continue;
      std::string_view rest = text.substr(at + key.size());
      const size_t value = rest.find_first_not_of(" :=\t");
      if (value == rest.npos || value == 0) continue;
      rest.remove_prefix(value);
      if (printed_number(rest) || is_not_finite(rest)) return rest;
    }
  }
  return std::nullopt;
}

bool loses_loss(std::string_view text) {
  constexpr std::string_view kLoss = "loss";
  for (size_t at = place_of(text, kLoss); at != text.npos; at = place_of(text, kLoss, at + 1)) {
    std::string_view rest = text.substr(at + kLoss.size());
    const size_t value = rest.find_first_not_of(" :=\t'\"");
    if (value == rest.npos || value == 0) continue;
    rest.remove_prefix(value);
    if (printed_number(rest)) return false;
    if (is_not_finite(rest)) return true;
  }
  return false;
}

std::optional<int64_t> keyed_mebibytes(std::string_view text, std::initializer_list<std::string_view> keys) {
  const auto value = keyed_value(text, keys);
  // Not "3000M" as three billions.
  const auto number =
      value ? leading_integer(value->substr(0, value->find_first_not_of("0123456789"))) : std::nullopt;
  return number && *number >= 0 && *number < 1'000'000'000 ? std::optional(*number << 20) : std::nullopt;
}

std::optional<double> keyed_number(std::string_view text, std::initializer_list<std::string_view> keys) {
  const auto value = keyed_value(text, keys);
  return value ? printed_number(*value) : std::nullopt;
}

}  // namespace profgpu
