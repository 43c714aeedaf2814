#include <algorithm>

#include "present/first_screen.h"
#include "present/overview.h"
#include "present/wording.h"
#include "report/quantity.h"
#include "report/text.h"

namespace profgpu {
namespace {

constexpr size_t kExplained = 6;      // findings that come with what to change; one screen, then the rest in short
constexpr int kCostWidth = 15;        // "not estimated", "1.23 s  39 %"
constexpr int kLeastRoom = 34;        // cells for what was seen, beside the rule's name
constexpr int kFindingIndent = 4;
constexpr int kMostLines = 4;         // of one sentence

struct FindingColumns {
  int width;
  int rule;
  int text_end;   // where the costs begin
  bool beside;    // what was seen stands beside the rule's name, else below it
};

FindingColumns columns_of(const Report& report, const PresentOptions& options) {
  FindingColumns c{layout_width(options), 0, 0, true};
  for (const Finding& f : report.findings) c.rule = std::max(c.rule, display_width(sanitised(f.rule)));
  c.rule = std::min(c.rule, 28);
  // Costs far away from their lines are hard to follow on a very wide screen.
  c.text_end = std::min(c.width, 120) - kCostWidth;
  c.beside = c.text_end - c.rule - 6 >= kLeastRoom;
  return c;
}

Style style_of(Severity severity) {
  if (severity == Severity::kCritical) return Style::kStrongBad;
  return severity == Severity::kWarning ? Style::kWarn : Style::kNote;
}

Line cost_cell(const Report& report, const Finding& finding) {
  const std::optional<double> cost = cost_of_step(report, finding);
  if (!cost) return Line(padded_left("not estimated", kCostWidth), Style::kFaint);
  const std::string pct = finding.cost_pct ? padded_left(format_percent(*finding.cost_pct, 0), 6) : "";
  return Line(padded_left(format_duration(*cost, 2) + pct, kCostWidth), Style::kStrong);
}

std::string what_of(const Report& report, const Finding& finding) {
  const std::string ranks = ranks_concerned(report, finding);
  return ranks.empty() ? finding.what : ranks + ": " + finding.what;
}

Lines headline(const Report& report, const Finding& finding, const FindingColumns& columns) {
  Line first;
  first.add(finding.severity == Severity::kInfo ? "○ " : "● ", style_of(finding.severity));
  first.add(truncated(sanitised(finding.rule), columns.rule), style_of(finding.severity));
  Lines what;
  if (columns.beside) {
    first.to_column(2 + columns.rule + 2);
    what = wrapped_after(std::move(first), what_of(report, finding), columns.text_end - 2, Style::kPlain, kMostLines);
    what.front().to_column(columns.text_end).add(cost_cell(report, finding));
    return what;
  }
  first.to_column(columns.text_end).add(cost_cell(report, finding));
  what.push_back(std::move(first));
  append(what, wrapped_after(Line().skip(2), what_of(report, finding), columns.width, Style::kPlain, kMostLines));
  return what;
}

Lines fix_lines(const Finding& finding, size_t count, int width) {
  Lines out;
  for (size_t i = 0; i < finding.fix.size() && i < count; ++i)
    append(out, wrapped_after(Line().skip(kFindingIndent).add("→ ", Style::kGood), finding.fix[i], width, Style::kPlain,
                              kMostLines));
  return out;
}

Lines seen_lines(const Finding& finding, size_t count, int width) {
  Lines out;
  for (size_t i = 0; i < finding.evidence.size() && i < count; ++i)
    append(out, wrapped_after(Line().skip(kFindingIndent + 2), finding.evidence[i], width, Style::kFaint, kMostLines));
  return out;
}

std::string in_unit(double x, const std::string& unit) {
  if (unit == "%") return format_percent(x);
  return unit.empty() || unit == "count" || unit == "ratio" ? format_number(x) : format_number(x) + " " + unit;
}

std::string measured_text(const Finding& finding) {
  if (!finding.value) return {};
  std::string text = "measured " + in_unit(*finding.value, finding.unit);
  if (finding.threshold) text += ", threshold " + in_unit(*finding.threshold, finding.unit);
  return text;
}

Lines whole_finding(const Finding& finding, int width) {
  Lines out;
  if (!finding.why.empty()) append(out, wrapped_after(Line().skip(kFindingIndent), finding.why, width));
  append(out, fix_lines(finding, finding.fix.size(), width));
  append(out, seen_lines(finding, finding.evidence.size(), width));
  if (const std::string measured = measured_text(finding); !measured.empty())
    append(out, wrapped_after(Line().skip(kFindingIndent + 2), measured, width, Style::kFaint));
  out.emplace_back();
  return out;
}

Line heading(const Report& report, const FindingColumns& columns) {
  const RankReport* rank = report.rank_in_focus();
  const char* cost = rank && rank->steps.marked() ? "costs a step" : "costs";
  const auto has_cost = [](const Finding& f) { return f.cost_ns.has_value(); };
  const bool any = std::any_of(report.findings.begin(), report.findings.end(), has_cost);
  Line line("Findings, dearest first", Style::kStrong);
  if (any) line.to_column(columns.text_end).add(padded_left(cost, kCostWidth), Style::kFaint);
  return line;
}

}  // namespace

Lines finding_lines(const Report& report, const PresentOptions& options, bool whole) {
  if (report.findings.empty()) {
    if (report.ranks.empty()) return {};
    return {Line("No findings: ", Style::kStrong).add("nothing is over its rule's threshold")};
  }
  const FindingColumns columns = columns_of(report, options);
  Lines out{heading(report, columns)};
  for (size_t i = 0; i < report.findings.size(); ++i) {
    const Finding& finding = report.findings[i];
    append(out, headline(report, finding, columns));
    if (whole || options.verbose) {
      append(out, whole_finding(finding, columns.width));
    } else if (i < kExplained) {
      append(out, fix_lines(finding, 1, columns.width));
      if (finding.severity != Severity::kInfo) append(out, seen_lines(finding, 1, columns.width));
    }
  }
  return out;
}

}  // namespace profgpu
