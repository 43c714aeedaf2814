#include "base/text.h"

#include <algorithm>

namespace profgpu {
namespace {

std::string_view leading_digits(std::string_view text) {
  const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  return text.substr(0, end);
}

std::string_view without_zeros(std::string_view digits) {
  return digits.substr(std::min(digits.find_first_not_of('0'), digits.size() - 1));
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = lower(c);
  return out;
}

std::string upper_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = upper(c);
  return out;
}

bool all_digits(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), is_digit); }

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t from = text.find_first_not_of(kBlanks);
  return from == text.npos ? "" : text.substr(from, text.find_last_not_of(kBlanks) - from + 1);
}

std::vector<std::string_view> pieces_of(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) pieces.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pieces;
}

std::string_view line_value(std::string_view text, std::string_view key) {
  for (const std::string_view line : pieces_of(text, '\n'))
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ':')
      return without_blanks(line.substr(key.size() + 1));
  return "";
}

bool natural_less(std::string_view a, std::string_view b) {
  std::string_view x = a, y = b;
  while (!x.empty() && !y.empty()) {
    const std::string_view m = leading_digits(x), n = leading_digits(y);
    if (!m.empty() && !n.empty()) {
      const std::string_view i = without_zeros(m), j = without_zeros(n);
      if (i.size() != j.size()) return i.size() < j.size();
      if (i != j) return i < j;
      x.remove_prefix(m.size());
      y.remove_prefix(n.size());
    } else if (x.front() != y.front()) {
      return x.front() < y.front();
    } else {
      x.remove_prefix(1);
      y.remove_prefix(1);
    }
  }
  return x.empty() != y.empty() ? x.empty() : a < b;
}

}  // namespace profgpu
