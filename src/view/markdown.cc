#include <algorithm>
#include <cctype>

#include "analyse/report/text.h"
#include "base/text.h"
#include "view/document.h"

namespace profgpu {
namespace {

bool is_word(std::string_view s, size_t i) { return i < s.size() && std::isalnum(static_cast<unsigned char>(s[i])); }

// Underscores inside a word and hyphens inside a line are no markup; escaping them would only spoil the plain text.
bool needs_backslash(std::string_view s, size_t i, bool begins_line) {
  if (s[i] == '_') return !(i > 0 && is_word(s, i - 1) && is_word(s, i + 1));
  if (s[i] == '-' || s[i] == '+' || s[i] == '#') return begins_line && i == 0;
  if (s[i] == '.' || s[i] == ')')  // "1." and "1)" begin a list
    return begins_line && i > 0 && s.substr(0, i).find_first_not_of("0123456789") == std::string_view::npos;
  return std::string_view("\\`*[]|~!$").find(s[i]) != std::string_view::npos;
}

// Whether here begins what a forge makes a link of by itself: a user it notifies, or an address.
bool begins_link(std::string_view s, size_t i) {
  if (s[i] == '@') return is_word(s, i + 1);
  return s.substr(i).starts_with("//") && i > 0 && s[i - 1] == ':';
}

}  // namespace

std::string markdown_text(std::string_view raw, bool begins_line) {
  constexpr int kMaxCells = 2000;
  const std::string text = truncated(sanitised(raw), kMaxCells);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      default:
        if (needs_backslash(text, i, begins_line)) out += '\\';
        if (text[i] == '/' && begins_link(text, i)) out += "<!-- -->";
        out += text[i];
        if (text[i] == '@' && begins_link(text, i)) out += "<!-- -->";
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
    // A pipe ends a table cell even within code.
    if (c == '|' && in_table) body += '\\';
    body += c;
  }
  const std::string fence(longest + 1, '`');
  const bool padded = body.front() == '`' || body.back() == '`';
  const std::string pad = padded ? " " : "";
  return fence + pad + body + pad + fence;
}

std::string markdown_table(const Grid& grid) {
  std::string out = "|";
  for (const GridColumn& c : grid.columns()) out += " " + markdown_text(without_blanks(c.header)) + " |";
  out += "\n|";
  for (const GridColumn& c : grid.columns()) out += c.right ? " ---: |" : " --- |";
  out += '\n';
  for (const auto& row : grid.rows()) {
    out += '|';
    for (const Cell& cell : row)
      out += " " + (cell.holds == Holds::kOurs    ? std::string(without_blanks(cell.text))
                    : cell.holds == Holds::kWords ? markdown_text(cell.text)
                                                  : markdown_code(cell.text, true)) + " |";
    out += '\n';
  }
  return out + '\n';
}

namespace {

class MarkdownRenderer final : public Renderer {
 public:
  void heading(int level, const Runs& runs) override {
    out += std::string(static_cast<size_t>(level) + 1, '#') + " " + text_of(runs) + "\n\n";
  }
  void paragraph(const Runs& runs) override { out += text_of(runs) + "\n\n"; }
  void list(const std::vector<ListItem>& items, bool numbered) override {
    for (size_t i = 0; i < items.size(); ++i) {
      out += (numbered ? std::to_string(i + 1) + ". " : "- ") + text_of(items[i].runs) + "\n";
      for (const Runs& below : items[i].below) out += "    - " + text_of(below) + "\n";
    }
    if (!items.empty()) out += "\n";
  }
  void table(const Grid& grid, const std::vector<double>&) override { out += markdown_table(grid); }

 private:
  static std::string lines_text(std::string_view text) {
    std::string out;
    for (const std::string_view line : lines_of(text)) out += (out.empty() ? "" : "\n      ") + markdown_text(line);
    return out;
  }

  static std::string text_of(const Runs& runs) {
    std::string out;
    for (const Run& run : runs) {
      if (run.as == Run::As::kCode) out += markdown_code(run.text, false, 500);
      if (run.as == Run::As::kWarning) out += "**!** ";
      if (run.as == Run::As::kStrong) out += "**" + markdown_text(run.text, false) + "**";
      if (run.as == Run::As::kPlain) out += markdown_text(run.text, out.empty());
      if (run.as == Run::As::kLines) out += lines_text(run.text);
    }
    return out;
  }
};

std::string write_markdown(const Report& report, const PresentOptions& options) {
  MarkdownRenderer to;
  if (options.section.empty()) render_report(report, options, false, options.top, to);
  else render_section(report, options, to);
  if (to.out.empty()) to.paragraph({{"Nothing in this report."}});
  while (to.out.ends_with("\n\n")) to.out.pop_back();
  return std::move(to.out);
}

}  // namespace

extern const Presenter kMarkdownPresenter{"markdown", "for a pull request or a chat", write_markdown};

}  // namespace profgpu
