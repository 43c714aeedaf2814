#include "view/terminal.h"

#include <algorithm>

#include "analyse/report/quantity.h"
#include "analyse/report/text.h"
#include "base/text.h"
#include "view/layout.h"
#include "view/overview.h"
#include "view/wording.h"

namespace profgpu {
namespace {

constexpr size_t kExplained = 6;      // findings with what to change, for one screen; the rest are shortened
constexpr int kCostWidth = 15;        // "not estimated", "1.23 s  39 %"
constexpr int kMinRoom = 34;          // cells for the observation, beside the rule's name
constexpr int kFindingIndent = 4;
constexpr int kMaxLines = 4;          // of one sentence

struct FindingColumns {
  int width;
  int rule;
  int text_end;   // where the costs begin
  bool beside;    // the observation is beside the rule's name, else below it
};

FindingColumns columns_of(const Report& report, const PresentOptions& options) {
  FindingColumns c{layout_width(options), 0, 0, true};
  for (const Finding& f : report.findings) c.rule = std::max(c.rule, display_width(sanitised(f.rule)));
  c.rule = std::min(c.rule, 28);
  // On a very wide screen, costs far away from their lines are hard to follow.
  c.text_end = std::min(c.width, 120) - kCostWidth;
  c.beside = c.text_end - c.rule - 6 >= kMinRoom;
  return c;
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
  first.add(finding.severity == Severity::kInfo ? "○ " : "● ", severity_style(finding.severity));
  first.add(truncated(sanitised(finding.rule), columns.rule), severity_style(finding.severity));
  Lines what;
  if (columns.beside) {
    first.to_column(2 + columns.rule + 2);
    what = wrapped_after(std::move(first), what_of(report, finding), columns.text_end - 2, Style::kPlain, kMaxLines);
    what.front().to_column(columns.text_end).add(cost_cell(report, finding));
    return what;
  }
  first.to_column(columns.text_end).add(cost_cell(report, finding));
  what.push_back(std::move(first));
  append(what, wrapped_after(Line().skip(2), what_of(report, finding), columns.width, Style::kPlain, kMaxLines));
  return what;
}

Lines fix_lines(const Finding& finding, size_t count, int width) {
  Lines out;
  for (size_t i = 0; i < finding.fix.size() && i < count; ++i)
    append(out, wrapped_after(Line().skip(kFindingIndent).add("→ ", Style::kGood), finding.fix[i], width, Style::kPlain,
                              kMaxLines));
  return out;
}

Lines seen_lines(const Finding& finding, size_t count, int width) {
  Lines out;
  for (size_t i = 0; i < finding.evidence.size() && i < count; ++i)
    append(out, wrapped_after(Line().skip(kFindingIndent + 2), finding.evidence[i], width, Style::kFaint, kMaxLines));
  return out;
}

// Whether an earlier finding names the location, or the evidence does and there is no line of code to add.
bool is_known(const Report& report, const Finding& finding, const Place& place) {
  for (const Finding& before : report.findings) {
    if (&before == &finding) break;
    if (!before.where.empty() && before.where.front() == place) return true;
  }
  return place.file.empty() && !finding.evidence.empty() &&
         finding.evidence.front().find(place.name) != std::string::npos;
}

// "in normalize (image_transforms.py:390): 105.7 ms a step"
Lines place_lines(const Report& report, const Finding& finding, size_t count, int width) {
  const RankReport* rank = report.rank_in_focus();
  const bool steps = rank && rank->steps.marked();
  Lines out;
  for (size_t i = 0; i < finding.where.size() && i < count; ++i) {
    const Place& p = finding.where[i];
    const double ns = static_cast<double>(p.ns) / static_cast<double>(std::max<int64_t>(report.measured_steps, 1));
    append(out, wrapped_after(Line().skip(kFindingIndent + 2),
                              "in " + location_text(p) + ": " + format_duration(ns) + (steps ? " a step" : ""), width,
                              Style::kFaint, kMaxLines));
  }
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

Lines whole_finding(const Report& report, const Finding& finding, int width) {
  Lines out;
  if (!finding.why.empty()) append(out, wrapped_after(Line().skip(kFindingIndent), finding.why, width));
  append(out, fix_lines(finding, finding.fix.size(), width));
  append(out, seen_lines(finding, finding.evidence.size(), width));
  append(out, place_lines(report, finding, finding.where.size(), width));
  if (const std::string measured = measured_text(finding); !measured.empty())
    append(out, wrapped_after(Line().skip(kFindingIndent + 2), measured, width, Style::kFaint));
  out.emplace_back();
  return out;
}

Line heading(const Report& report, const FindingColumns& columns) {
  const RankReport* rank = report.rank_in_focus();
  const char* cost = rank && rank->steps.marked() ? "cost per step" : "cost";
  const auto has_cost = [](const Finding& f) { return f.cost_ns.has_value(); };
  const bool any = std::any_of(report.findings.begin(), report.findings.end(), has_cost);
  Line line("Findings, most expensive first", Style::kStrong);
  if (any) line.to_column(columns.text_end).add(padded_left(cost, kCostWidth), Style::kFaint);
  return line;
}

}  // namespace

namespace {

// Known to cost next to nothing: for those who ask.
bool is_minor(const Finding& f) { return f.severity == Severity::kInfo && f.cost_pct && *f.cost_pct < 1; }

}  // namespace

Lines finding_lines(const Report& report, const PresentOptions& options, bool whole) {
  if (report.findings.empty()) {
    if (report.ranks.empty()) return {};
    return {Line("No findings: ", Style::kStrong).add("nothing is over its rule's threshold")};
  }
  const FindingColumns columns = columns_of(report, options);
  Lines out{heading(report, columns)};
  int64_t minor = 0;
  for (size_t i = 0; i < report.findings.size(); ++i) {
    const Finding& finding = report.findings[i];
    if (!whole && is_minor(finding)) {
      ++minor;
      continue;
    }
    append(out, headline(report, finding, columns));
    if (whole || options.verbose) {
      append(out, whole_finding(report, finding, columns.width));
    } else if (i < kExplained) {
      append(out, fix_lines(finding, 1, columns.width));
      if (finding.severity == Severity::kInfo) continue;
      append(out, seen_lines(finding, 1, columns.width));
      if (!finding.where.empty() && !is_known(report, finding, finding.where.front()))
        append(out, place_lines(report, finding, 1, columns.width));
    }
  }
  if (minor > 0) out.push_back(Line("… and " + format_count(minor) + " minor: --section findings", Style::kFaint));
  return out;
}

std::vector<std::string> section_names(const Report& report) {
  std::vector<std::string> names{"findings", "checklist", "inputs"};
  if (report.job) names.emplace_back("cluster");
  if (report.ranks.empty()) return names;
  for (const Section& section : sections()) names.emplace_back(section.name);
  return names;
}

bool has_section(const Report& report, std::string_view name) {
  const std::vector<std::string> names = section_names(report);
  return std::find(names.begin(), names.end(), name) != names.end();
}

namespace {

// Shared by the parts of one section.
struct View {
  const PresentOptions& options;
  Origin origin;
};

// `field`: the value's name within `title`; empty: the title is enough.
void append_value(Lines& out, const std::string& title, std::string_view field, const Value& value, const View& view);

// The column that blocks of columns repeat: the short name if there is one, else the first text.
size_t key_column(const Table& table) {
  for (const std::string_view name : {"short_name", "name", "cause", "path"})
    if (const int c = table.column(name); c >= 0) return static_cast<size_t>(c);
  for (size_t c = 0; c < table.columns.size(); ++c)
    if (!is_numeric_column(table, c)) return c;
  return 0;
}

Lines table_lines(const Table& table, const View& view) {
  const size_t shown = shown_rows(table.rows.size(), view.options.top);
  const Grid grid = value_grid(table, {.rows = shown, .origin = view.origin, .aligned = true});
  Lines out = grid.lines(view.options.width, key_column(table));
  if (shown < table.rows.size()) out.push_back(more_line(table.rows.size() - shown, "--top 0 shows all"));
  return out;
}

// For tables over time, whose first ten rows show little.
Lines curve_lines(const Table& table) {
  Lines out;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    if (table.column("time_ns") < 0 || is_instant(table.columns[c]) || table.rows.size() < 8) continue;
    std::vector<double> values;
    for (const auto& row : table.rows) values.push_back(c < row.size() ? row[c].number(-1) : -1);
    const double most = *std::max_element(values.begin(), values.end());
    if (!(most > 0)) continue;
    Line line;
    line.skip(2).add(padded_right(column_title(table.columns[c]), 10)).add(curve(values, 40), Style::kNote);
    out.push_back(std::move(line.add("  up to ").add(cell_text(table.columns[c], most, {}))));
  }
  return out;
}

// Tables within rows, which their cells only summarize, each under its row's name.
void append_nested(Lines& out, const std::string& title, const Table& table, const View& view) {
  const size_t shown = shown_rows(table.rows.size(), view.options.top);
  const size_t key = key_column(table);
  for (size_t r = 0; r < shown; ++r)
    for (size_t c = 0; c < table.rows[r].size() && c < table.columns.size(); ++c) {
      const Table* nested = table.rows[r][c].table();
      if (!nested || nested->rows.empty()) continue;
      const std::string row = key < table.rows[r].size() ? cell_text(table.columns[key], table.rows[r][key], {}) : "";
      append_value(out, title + ", " + row, table.columns[c], table.rows[r][c], view);
    }
}

void append_table(Lines& out, const std::string& title, const Table& table, const View& view) {
  Line heading(title, Style::kStrong);
  const bool instants = std::any_of(table.columns.begin(), table.columns.end(), is_instant);
  if (table.rows.empty()) heading.add(": nothing in this trace");
  else if (instants && view.origin.first_step_ns) heading.add("   times count from the first step", Style::kFaint);
  append(out, {Line(), std::move(heading)});
  if (table.rows.empty()) return;
  append(out, curve_lines(table));
  append(out, table_lines(table, view));
  append_nested(out, title, table, view);
}

void append_record(Lines& out, const std::string& title, const Record& record, const View& view) {
  append(out, {Line(), Line(title, Style::kStrong)});
  int label = 0;
  for (const auto& [name, value] : record.fields)
    label = std::max(label, std::min(40, display_width(sanitised(column_title(name)))));
  for (const auto& [name, value] : record.fields) {
    if (value.table() || value.record()) continue;
    Line line;
    line.skip(2).add(padded_right(truncated(sanitised(column_title(name)), label), label)).skip(2);
    append(out, wrapped_after(std::move(line), cell_text(name, value, view.origin), view.options.width));
  }
  for (const auto& [name, value] : record.fields)
    if (value.table() || value.record()) append_value(out, title, name, value, view);
}

void append_value(Lines& out, const std::string& title, std::string_view field, const Value& value, const View& view) {
  const std::string heading = field.empty() ? title : title + ": " + column_title(field);
  if (const Table* table = value.table()) return append_table(out, heading, *table, view);
  if (const Record* record = value.record()) return append_record(out, heading, *record, view);
  append(out, {Line(), Line(heading, Style::kStrong)});
  append(out, wrapped_after(Line().skip(2), cell_text(field, value, view.origin), view.options.width));
}

// Names of phases are our own codes, to be shown as words.
Value with_phase_names(const Section& section, Value content) {
  if (section.name != "phases") return content;
  Table named = *content.table();
  named.columns.front() = "phase";
  return named;
}

Lines rank_sections(const Report& report, const PresentOptions& options) {
  const Section& section = *find_section(options.section);
  Lines out;
  for (const RankReport& rank : report.ranks) {
    const std::string title = std::string(section.title) + rank_suffix(report, rank);
    append_value(out, title, "", with_phase_names(section, section_value(rank, section.name)),
                 {options, origin_of(rank)});
  }
  return out;
}

Lines input_table(const Report& report, const PresentOptions& options) {
  Table table{{"path", "format", "file_bytes", "events", "rank"}, {}};
  for (const InputFile& input : report.inputs)
    table.rows.push_back({input.path, input.format, input.file_bytes, input.events, input.rank});
  Lines out;
  append_table(out, "Inputs", table, {options, {}});
  for (const InputFile& input : report.inputs) {
    if (input.issues.empty()) continue;
    append(out, {Line()});
    append(out, wrapped_after(Line(), input.path, options.width, Style::kStrong));
    for (const Issue& issue : input.issues) {
      append(out, wrapped_after(Line("! ", severity_style(issue.severity)), issue.text, options.width));
    }
  }
  return out;
}

Lines check_table(const Report& report, const PresentOptions& options) {
  Grid grid({{"verdict"}, {"id"}, {"question"}, {"found"}});
  for (const Check& check : report.checklist)
    grid.add_row({{std::string(verdict_name(check.verdict)), verdict_style(check.verdict)},
                  {check.id}, {check.question}, {check.brief}});
  Lines out{Line("Checklist", Style::kStrong)};
  if (!grid.empty()) append(out, grid.lines(options.width, 1));
  return out;
}

Lines cluster_lines(const Report& report, const PresentOptions& options) {
  const View view{options, {}};
  Lines out;
  for (const ReportPart& part : cluster_parts(report, static_cast<size_t>(std::max(options.top, 0)))) {
    append(out, {Line()});
    append(out, wrapped_after(Line(), part.title, options.width, Style::kStrong));
    for (const std::string& text : part.sentences)
      append(out, wrapped_after(Line("- "), sanitised(text), options.width));
    if (!part.table.rows.empty()) append(out, table_lines(part.table, view));
  }
  return out;
}

Lines unknown_section(const Report& report, const PresentOptions& options) {
  return wrapped_after(Line(), "no section " + options.section + " here; there are: " + joined(section_names(report)),
                       options.width);
}

}  // namespace

Lines section_lines(const Report& report, const PresentOptions& options) {
  if (options.section == "findings") return finding_lines(report, options, true);
  if (options.section == "checklist") return check_table(report, options);
  if (options.section == "inputs") return input_table(report, options);
  if (!has_section(report, options.section)) return unknown_section(report, options);
  return options.section == "cluster" ? cluster_lines(report, options) : rank_sections(report, options);
}

}  // namespace profgpu
