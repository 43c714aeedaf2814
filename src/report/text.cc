#include "report/text.h"

#include <algorithm>

#include "base/utf8.h"
#include "report/character.h"

namespace profgpu {
namespace {

constexpr std::string_view kEllipsis = "…";
// Combining marks on one character in any living script; more would be drawn over the lines around.
constexpr int kMostMarks = 3;

void append_written_out(std::string& out, uint32_t c) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += c < 0x100 ? "\\x" : c < 0x10000 ? "\\u" : "\\U";
  for (int shift = c < 0x100 ? 4 : c < 0x10000 ? 12 : 28; shift >= 0; shift -= 4) out += kHex[c >> shift & 0xF];
}

bool is_plain(char c) { return c >= 0x20 && c < 0x7F; }

// Bytes at the start of `text` that are printable ASCII, or what bars, curves and frames are drawn with (U+2500 to U+25BF): a
// cell a character, and harmless. `cells` is how many.
size_t plain_prefix(std::string_view text, int& cells) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto is_block = [&](size_t i) {
    return text.size() - i >= 3 && byte(i) == 0xE2 && byte(i + 1) >= 0x94 && byte(i + 1) <= 0x96 && (byte(i + 2) & 0xC0) == 0x80;
  };
  size_t at = 0;
  for (cells = 0; at < text.size(); ++cells) {
    const size_t bytes = is_plain(text[at]) ? 1 : is_block(at) ? 3 : 0;
    if (bytes == 0) break;
    at += bytes;
  }
  return at;
}

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
  const size_t indent = std::min(text.find_first_not_of(' '), text.size());
  if (indent > 0 && static_cast<int>(indent) < width / 2) {
    const size_t first = out.size();
    wrap_paragraph(text.substr(indent), width - static_cast<int>(indent), out);
    for (size_t i = first; i < out.size(); ++i) out[i].insert(0, indent, ' ');
    return;
  }
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
  int cells = 0;
  if (plain_prefix(text, cells) == text.size()) return std::string(text);
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
  text.remove_prefix(plain_prefix(text, width));
  while (!text.empty()) {
    const Character c = first_character(text);
    width += char_width(c.code_point);
    text.remove_prefix(c.bytes);
  }
  return width;
}

std::string truncated(std::string_view text, int width) {
  // A character takes at most 4 bytes and carries at most kMostMarks marks: no need to measure all of a huge name.
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
