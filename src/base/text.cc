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

std::string shortened(std::string_view text, size_t longest) {
  if (text.size() <= longest) return std::string(text);
  while (longest > 0 && (static_cast<unsigned char>(text[longest]) & 0xC0) == 0x80) --longest;
  return std::string(text.substr(0, longest)) + "…";
}

std::string list_on_one_line(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  std::string line;
  bool blank = false;
  for (const char c : text) {
    const bool skip = kBlanks.find(c) != kBlanks.npos;
    if (!skip && blank && !line.empty() && line.back() != '[' && c != ']') line += ' ';
    if (!skip) line += c;
    blank = skip;
  }
  return line;
}

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

std::string with_separators(std::string digits) {
  size_t end = digits.find('.');
  if (end == std::string::npos) end = digits.size();
  for (size_t i = end; i > 3 && digits[i - 4] != '-'; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string_view line_value(std::string_view text, std::string_view key, char separator) {
  for (const std::string_view line : pieces_of(text, '\n'))
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == separator)
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

void append_utf8(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out.push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out.push_back(static_cast<char>(0xC0 | c >> 6));
    out.push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else if (c < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | c >> 12));
    out.push_back(static_cast<char>(0x80 | (c >> 6 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else {
    out.push_back(static_cast<char>(0xF0 | c >> 18));
    out.push_back(static_cast<char>(0x80 | (c >> 12 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (c >> 6 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (c & 0x3F)));
  }
}

size_t utf8_sequence(std::string_view s) {
  if (s.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || s.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const unsigned char second = byte(1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second > 0x9F;
  const bool beyond = first == 0xF4 && second > 0x8F;
  return overlong || surrogate || beyond ? 0 : length;
}

Character first_character(std::string_view s) {
  const size_t n = utf8_sequence(s);
  if (n == 0) return {};
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(s[i])); };
  uint32_t c = n == 1 ? byte(0) : byte(0) & (0x7Fu >> n);
  for (size_t i = 1; i < n; ++i) c = c << 6 | (byte(i) & 0x3F);
  return {c, n, true};
}

bool is_control(uint32_t c) { return c < 0x20 || (c >= 0x7F && c < 0xA0); }

bool is_invisible(uint32_t c) {
  return c == 0xAD || c == 0x61C || c == 0x180E || (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF || (c >= 0xFFF9 && c <= 0xFFFB) || (c >= 0xE0000 && c <= 0xE007F);
}

int64_t replace_invalid_utf8(std::string& text) {
  int64_t replaced = 0;
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t n = utf8_sequence(std::string_view(text).substr(i));
    if (n > 0) {
      if (replaced > 0) out.append(text, i, n);
      i += n;
      continue;
    }
    if (replaced++ == 0) out.assign(text, 0, i);
    append_utf8(out, 0xFFFD);
    ++i;
  }
  if (replaced > 0) text = std::move(out);
  return replaced;
}

std::string valid_utf8(std::string_view text) {
  std::string valid(text);
  replace_invalid_utf8(valid);
  return valid;
}

std::string words(std::string_view code) {
  std::string out(code);
  std::replace(out.begin(), out.end(), '_', ' ');
  return out;
}

}  // namespace profgpu
