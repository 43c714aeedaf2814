// Comparisons laid out: terminal, Markdown, JUnit XML.
#include <fmt/format.h>

#include "cli/diff_view.h"
#include "cli/shell_line.h"
#include "present/markdown.h"
#include "report/text.h"

namespace profgpu {
namespace {

constexpr int kReadable = 120;

struct ChangeMark {
  std::string_view sign, word;
  Style style;
};
ChangeMark mark_of(GateVerdict verdict) {
  switch (verdict) {
    case GateVerdict::kPass: return {"✓", "passed", Style::kGood};
    case GateVerdict::kFail: return {"✗", "failed", Style::kBad};
    case GateVerdict::kUnknown: break;
  }
  return {"?", "not known", Style::kNote};
}

Lines title_lines(const Diff& diff, int width) {
  std::string title = diff.runs.front().label;
  for (size_t i = 1; i < diff.runs.size(); ++i) title += "  →  " + diff.runs[i].label;
  if (display_width(sanitised(title)) <= width) return {Line(sanitised(title), Style::kFaint)};
  Lines lines;
  for (const auto& run : diff.runs) {
    const std::string arrow = lines.empty() ? "" : "→ ";
    lines.emplace_back(arrow + truncated_front(sanitised(run.label), width - display_width(arrow)), Style::kFaint);
  }
  return lines;
}

Lines table_lines(const DiffTable& table, int width) {
  Grid grid;
  for (const GridColumn& c : table.columns) grid.add_column(c.header, c.right);
  for (const std::vector<Cell>& row : table.rows) grid.add_row(row);
  Lines lines{Line(table.title, Style::kStrong)};
  for (const Line& line : grid.lines(width > 2 ? width - 2 : 0)) lines.push_back(Line().skip(2).add(line));
  if (table.left_out > 0) lines.push_back(Line(fmt::format("  … and {} more: --top", table.left_out), Style::kFaint));
  return lines;
}

std::string xml(std::string_view text) {
  std::string out;
  for (const char c : sanitised(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

}  // namespace

std::string diff_terminal(const Diff& diff, int top, int width, bool colour) {
  const DiffView view = diff_view(diff, top);
  Lines lines = title_lines(diff, width);
  lines.emplace_back();
  append(lines, wrapped_after(Line(), view.headline, std::min(width, kReadable), view.style));
  for (const std::string& detail : view.details)
    append(lines, wrapped_after(Line().skip(2), detail, std::min(width, kReadable), Style::kFaint));
  for (const std::string& note : view.notes)
    append(lines, wrapped_after(Line("! ", Style::kWarn), note, std::min(width, kReadable)));
  for (const GateResult& g : view.gates) {
    const ChangeMark mark = mark_of(g.verdict);
    if (&g == &view.gates.front()) lines.emplace_back();
    Line line = Line(mark.sign, mark.style).skip(1).add(g.gate.text, Style::kStrong).skip(1);
    append(lines, wrapped_after(std::move(line), std::string(mark.word) + ": " + g.detail, std::min(width, kReadable)));
  }
  for (const DiffTable& table : view.tables) {
    lines.emplace_back();
    append(lines, table_lines(table, width));
  }
  lines.emplace_back();
  append(lines, next_lines({"profgpu analyze " + shell_line({diff.runs.back().label})}, width));
  return rendered(lines, width, colour);
}

std::string diff_markdown(const Diff& diff, int top) {
  const DiffView view = diff_view(diff, top);
  std::string out = "### " + markdown_text(view.headline) + "\n\n";
  out += markdown_code(diff.runs.front().label, false) + " → " + markdown_code(diff.runs.back().label, false) + "\n\n";
  for (const std::string& detail : view.details) out += markdown_text(detail) + "\n\n";
  for (const std::string& note : view.notes) out += "> " + markdown_text(note) + "\n\n";
  for (const GateResult& g : view.gates)
    out += fmt::format("- {} {} {}: {}\n", mark_of(g.verdict).sign, markdown_code(g.gate.text, false),
                       mark_of(g.verdict).word, markdown_text(g.detail));
  if (!view.gates.empty()) out += "\n";
  for (const DiffTable& table : view.tables) {
    // What explains the change stands open, the long tables fold.
    const bool open = &table == &view.tables.front();
    std::vector<MarkdownColumn> columns;
    for (const GridColumn& c : table.columns) columns.push_back({markdown_text(c.header), c.right});
    std::vector<std::vector<std::string>> rows;
    for (const std::vector<Cell>& row : table.rows) {
      std::vector<std::string>& cells = rows.emplace_back();
      for (size_t i = 0; i < row.size(); ++i)
        cells.push_back(i == 0 && table.code ? markdown_code(row[i].text, true) : markdown_text(row[i].text));
    }
    const std::string title = markdown_text(table.title);
    out += open ? "**" + title + "**\n\n" : "<details><summary>" + title + "</summary>\n\n";
    out += markdown_table(columns, rows) + "\n";
    if (!open) out += "</details>\n\n";
  }
  return out;
}

std::string diff_junit(const Diff& diff) {
  size_t failures = 0, skipped = 0;
  for (const GateResult& g : diff.gates) {
    failures += g.verdict == GateVerdict::kFail;
    skipped += g.verdict == GateVerdict::kUnknown;
  }
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  out += fmt::format("<testsuite name=\"profgpu diff\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n", diff.gates.size(),
                     failures, skipped);
  for (const GateResult& g : diff.gates) {
    out += fmt::format("  <testcase classname=\"profgpu\" name=\"{}\">", xml(g.gate.text));
    if (g.verdict == GateVerdict::kFail) out += fmt::format("<failure message=\"{}\"/>", xml(g.detail));
    if (g.verdict == GateVerdict::kUnknown) out += fmt::format("<skipped message=\"{}\"/>", xml(g.detail));
    out += fmt::format("<system-out>{}</system-out></testcase>\n", xml(g.detail));
  }
  return out + "</testsuite>\n";
}

}  // namespace profgpu
