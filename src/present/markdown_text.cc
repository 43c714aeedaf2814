#include "present/markdown_text.h"

#include <algorithm>
#include <cctype>

#include "report/text.h"

namespace profgpu {
namespace {

bool is_word(std::string_view s, size_t i) { return i < s.size() && std::isalnum(static_cast<unsigned char>(s[i])); }

// Underscores inside a word and hyphens inside a line mark nothing up; escaping them would only spoil the plain text.
bool needs_backslash(std::string_view s, size_t i) {
  if (s[i] == '_') return !(i > 0 && is_word(s, i - 1) && is_word(s, i + 1));
  if (s[i] == '-' || s[i] == '+' || s[i] == '#') return i == 0;
  if (s[i] == '.' || s[i] == ')')  // "1." and "1)" begin a list
    return i > 0 && s.substr(0, i).find_first_not_of("0123456789") == std::string_view::npos;
  return std::string_view("\\`*[]|~!$").find(s[i]) != std::string_view::npos;
}

}  // namespace

std::string markdown_text(std::string_view raw, int most) {
  const std::string text = truncated(sanitised(raw), most);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      default:
        if (needs_backslash(text, i)) out += '\\';
        out += text[i];
    }
  }
  return out;
}

std::string markdown_code(std::string_view raw, bool in_table, int most) {
  const std::string text = truncated(sanitised(raw), most);
  if (text.find_first_not_of(' ') == std::string::npos) return {};
  size_t longest = 0, run = 0;
  std::string body;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
    // A table's pipe ends a cell even within code.
    if (c == '|' && in_table) body += '\\';
    body += c;
  }
  const std::string fence(longest + 1, '`');
  const bool padded = body.front() == '`' || body.back() == '`';
  const std::string pad = padded ? " " : "";
  return fence + pad + body + pad + fence;
}

std::string markdown_table(const std::vector<MarkdownColumn>& columns,
                           const std::vector<std::vector<std::string>>& rows) {
  std::string out = "|";
  for (const MarkdownColumn& c : columns) out += " " + c.header + " |";
  out += "\n|";
  for (const MarkdownColumn& c : columns) out += c.right ? " ---: |" : " --- |";
  out += '\n';
  for (const auto& row : rows) {
    out += '|';
    for (size_t i = 0; i < columns.size(); ++i) out += " " + (i < row.size() ? row[i] : std::string()) + " |";
    out += '\n';
  }
  return out + '\n';
}

}  // namespace profgpu
