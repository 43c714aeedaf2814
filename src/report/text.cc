#include "report/text.h"

#include <algorithm>

#include "base/utf8.h"
#include "report/char_width.h"

namespace profgpu {
namespace {

constexpr std::string_view kEllipsis = "…";
constexpr int kMostMarks = 3;  // combining marks on one character in any living script; more is an attack on the lines around

struct Character {
  uint32_t code_point = 0xFFFD;
  size_t bytes = 1;
  bool valid = false;
};

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

void append_written_out(std::string& out, uint32_t c) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += c < 0x100 ? "\\x" : c < 0x10000 ? "\\u" : "\\U";
  for (int shift = c < 0x100 ? 4 : c < 0x10000 ? 12 : 28; shift >= 0; shift -= 4) out += kHex[c >> shift & 0xF];
}

bool is_plain(char c) { return c >= 0x20 && c < 0x7F; }

// Bytes of the longest beginning that takes at most `width` cells.
size_t prefix_bytes(std::string_view s, int width) {
  size_t at = 0;
  for (int used = 0; at < s.size();) {
    const Character c = first_character(s.substr(at));
    used += char_width(c.code_point);
    if (used > width) break;
    at += c.bytes;
  }
  return at;
}

void wrap_paragraph(std::string_view text, int width, std::vector<std::string>& out) {
  std::string line;
  int used = 0;
  while (!text.empty()) {
    const size_t blank = text.find(' ');
    std::string_view word = text.substr(0, blank);
    text.remove_prefix(blank == std::string_view::npos ? text.size() : blank + 1);
    const int cells = display_width(word);
    if (!line.empty() && used + 1 + cells > width) {
      out.push_back(std::move(line));
      line.clear();
      used = 0;
    }
    if (!line.empty()) line += ' ', ++used;
    used += cells;
    while (used > width) {
      const size_t n = std::max(prefix_bytes(word, width), first_character(word).bytes);
      out.emplace_back(word.substr(0, n));
      used -= display_width(word.substr(0, n));
      word.remove_prefix(n);
    }
    line += word;
  }
  out.push_back(std::move(line));
}

}  // namespace

std::string sanitised(std::string_view text) {
  if (std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);
  std::string out;
  out.reserve(text.size() + 16);
  int marks = 0;
  while (!text.empty()) {
    const Character c = first_character(text);
    const bool mark = c.code_point >= 0x300 && char_width(c.code_point) == 0;
    marks = mark ? marks + 1 : 0;
    if (!c.valid)
      append_utf8(out, 0xFFFD);
    else if (c.code_point == '\t' || c.code_point == '\n')
      out += ' ';
    else if (is_control(c.code_point) || is_invisible(c.code_point) || marks > kMostMarks)
      append_written_out(out, c.code_point);
    else
      out += text.substr(0, c.bytes);
    text.remove_prefix(c.bytes);
  }
  return out;
}

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const Character c = first_character(text);
    width += char_width(c.code_point);
    text.remove_prefix(c.bytes);
  }
  return width;
}

std::string truncated(std::string_view text, int width) {
  // A character takes at most 4 bytes and a cell carries at most kMostMarks marks: no need to measure all of a huge name.
  const size_t looked_at = std::min(text.size(), static_cast<size_t>(std::max(width, 0)) * 4 * (kMostMarks + 1) + 32);
  const size_t n = prefix_bytes(text.substr(0, looked_at), width);
  if (n == text.size()) return std::string(text);
  if (width <= 0) return {};
  std::string out(text.substr(0, prefix_bytes(text.substr(0, n), width - 1)));
  while (out.ends_with(' ')) out.pop_back();
  return out.append(kEllipsis);
}

std::string truncated_front(std::string_view text, int width) {
  int excess = display_width(text) - width;
  if (excess <= 0) return std::string(text);
  if (width <= 0) return {};
  ++excess;
  while (excess > 0) {
    const Character c = first_character(text);
    excess -= char_width(c.code_point);
    text.remove_prefix(c.bytes);
  }
  return std::string(kEllipsis).append(text);
}

std::string padded_right(std::string text, int width) {
  const int missing = width - display_width(text);
  if (missing > 0) text.append(static_cast<size_t>(missing), ' ');
  return text;
}

std::string padded_left(std::string text, int width) {
  const int missing = width - display_width(text);
  if (missing > 0) text.insert(0, static_cast<size_t>(missing), ' ');
  return text;
}

std::vector<std::string> wrapped(std::string_view text, int width) {
  std::vector<std::string> out;
  for (const std::string_view line : lines_of(text)) {
    if (width < 1)
      out.emplace_back(line);
    else
      wrap_paragraph(line, width, out);
  }
  if (out.empty()) out.emplace_back();
  return out;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    out.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return out;
}

}  // namespace profgpu
