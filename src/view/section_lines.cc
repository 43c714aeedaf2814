#include "view/terminal.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyse/report/quantity.h"
#include "analyse/report/text.h"
#include "base/clock.h"
#include "base/text.h"
#include "view/layout.h"
#include "view/overview.h"
#include "view/wording.h"

namespace profgpu {
namespace {

constexpr int kCostWidth = 15;        // "not estimated", "saves nothing" (alone), "1.23 s  39 %"
constexpr int kMinRoom = 34;          // cells for the observation, beside the rule's name
constexpr int kFindingIndent = 4;
constexpr int kMaxLines = 4;          // of one sentence

std::string in_unit(double x, const std::string& unit) {
  if (unit == "%") return format_percent(x);
  return unit.empty() || unit == "count" || unit == "ratio" ? format_number(x) : format_number(x) + " " + unit;
}

// Told apart by shape too.
const char* severity_mark(Severity severity) {
  return severity == Severity::kInfo ? "○ " : severity == Severity::kCritical ? "◆ " : "▲ ";
}

std::string measured_text(const Finding& finding) {
  if (!finding.value) return {};
  std::string text = "measured " + in_unit(*finding.value, finding.unit);
  if (finding.threshold) text += ", threshold " + in_unit(*finding.threshold, finding.unit);
  return text;
}

class FindingLines {
 public:
  FindingLines(const Report& report, int width) : report_(report), width_(width) {
    for (const Finding& f : report.findings) rule_ = std::max(rule_, display_width(sanitised(f.rule)));
    rule_ = std::min(rule_, 28);
    // On a very wide screen, costs far away from their lines are hard to follow.
    text_end_ = std::min(width, 120) - kCostWidth;
    const RankReport* rank = report.rank_in_focus();
    per_step_ = rank && rank->steps.marked();
  }

  Lines take() { return std::move(out_); }

  void heading() {
    Line line("Findings, most important first", Style::kStrong);
    if (std::ranges::none_of(report_.findings, [](const Finding& f) { return f.cost_ns.has_value(); }))
      return out_.push_back(std::move(line));
    add_with_cost(std::move(line), Line(padded_left(per_step_ ? "cost per step" : "cost", kCostWidth), Style::kFaint));
  }

  void headline(const Finding& finding, int max_lines = kMaxLines) {
    const Style style = severity_style(finding.severity);
    Line first(severity_mark(finding.severity), style);
    first.add(truncated(sanitised(finding.rule), rule_), style);
    const std::string ranks = ranks_concerned(report_, finding);
    const std::string what = ranks.empty() ? finding.what : ranks + ": " + finding.what;
    if (text_end_ - rule_ - 6 < kMinRoom) {   // the observation goes below the rule's name
      add_with_cost(std::move(first), cost_cell(finding));
      return append(out_, wrapped_after(Line().skip(2), what, width_, Style::kPlain, max_lines));
    }
    Lines lines =
        wrapped_after(std::move(first.to_column(2 + rule_ + 2)), what, text_end_ - 2, Style::kPlain, max_lines);
    lines.front().to_column(text_end_).add(cost_cell(finding));
    append(out_, std::move(lines));
  }

  /// What it is in a line, below the name on a narrow screen, and the first change in up to `fix_lines`, 0: none.
  void short_form(const Finding& finding, int fix_lines) {
    headline(finding, 1);
    if (finding.fix.empty() || fix_lines == 0) return;
    const Line arrow = Line().skip(kFindingIndent).add("→ ", Style::kGood);
    const auto& [words, command] = parts_of_fix(finding.fix.front());
    const bool fits = command.empty() || wrapped_after(arrow, finding.fix.front(), width_).size() <= 1;
    const std::string text = fits ? finding.fix.front() : words + ": --section findings has the command";
    append(out_, wrapped_after(arrow, text, width_, Style::kPlain, fix_lines));
  }

  void whole(const Finding& finding) {
    if (!finding.why.empty()) append(out_, wrapped_after(Line().skip(kFindingIndent), finding.why, width_));
    for (const std::string& text : finding.fix) add_fix(text);
    for (const std::string& text : finding.evidence) add_detail(text);
    for (const Place& place : finding.where) add_location(finding, place);
    if (const std::string text = measured_text(finding); !text.empty()) add_detail(text);
    out_.emplace_back();
  }
  void brief(const Finding& finding) {
    if (!finding.fix.empty()) add_fix(finding.fix.front());
    if (finding.severity == Severity::kInfo) return;
    if (!finding.evidence.empty()) add_detail(finding.evidence.front());
    if (!finding.where.empty() && !is_known(finding, finding.where.front())) add_location(finding, finding.where.front());
  }

 private:
  // Below the line if there is no room beside it.
  void add_with_cost(Line line, const Line& cost) {
    if (line.width() >= text_end_) {
      out_.push_back(std::move(line));
      line = Line();
    }
    out_.push_back(std::move(line.to_column(text_end_).add(cost)));
  }

  [[nodiscard]] Line cost_cell(const Finding& finding) const {
    const std::optional<double> cost = cost_of_step(report_, finding);
    if (!cost || *cost == 0)
      return Line(padded_left(cost ? "saves nothing" : "not estimated", kCostWidth), Style::kFaint);
    const std::string pct = finding.cost_pct ? padded_left(format_percent(*finding.cost_pct, 0), 6) : "";
    return Line(padded_left(format_duration(*cost, 2) + pct, kCostWidth), Style::kStrong);
  }

  // Whether an earlier finding names the location, or the evidence does and there is no line of code to add.
  [[nodiscard]] bool is_known(const Finding& finding, const Place& place) const {
    for (const Finding& before : report_.findings) {
      if (&before == &finding) break;
      if (!before.where.empty() && before.where.front() == place) return true;
    }
    return place.file.empty() && !finding.evidence.empty() &&
           finding.evidence.front().find(place.name) != std::string::npos;
  }

  void add(const Line& first, const std::string& text, Style style) {
    append(out_, wrapped_after(first, text, width_, style, kMaxLines));
  }
  void add_fix(const std::string& text) {
    const Line arrow = Line().skip(kFindingIndent).add("→ ", Style::kGood);
    const auto& [words, command] = parts_of_fix(text);
    if (command.empty() || arrow.width() + display_width(sanitised(text)) <= width_)
      return add(arrow, text, Style::kPlain);
    add(arrow, words + ":", Style::kPlain);
    out_.push_back(std::move(Line().skip(kFindingIndent + 2).add(sanitised(command)).whole()));
  }
  // A command to copy is neither wrapped nor cut: "profile it" and "ncu --set full …".
  static std::pair<std::string, std::string> parts_of_fix(const std::string& text) {
    for (const std::string_view program : {": ncu ", ": rocprof-compute "})
      if (const size_t at = text.find(program); at != text.npos) return {text.substr(0, at), text.substr(at + 2)};
    return {text, ""};
  }
  void add_detail(const std::string& text) { add(Line().skip(kFindingIndent + 2), text, Style::kFaint); }
  // "in normalize (image_transforms.py:390): 105.7 ms per step"
  void add_location(const Finding& finding, const Place& place) {
    const std::string time = format_duration(per_step(report_, finding, place.ns));
    add_detail("in " + location_text(place) + ": " + time + (per_step_ ? " per step" : ""));
  }

  const Report& report_;
  const int width_;
  int rule_ = 0, text_end_ = 0;   // width of the longest rule's name; where the costs begin
  bool per_step_ = false;
  Lines out_;
};

}  // namespace

namespace {

// Known to cost next to nothing.
bool is_minor(const Finding& f) { return f.severity == Severity::kInfo && f.cost_pct && *f.cost_pct < 1; }

// What the verdict is about comes first, and what saves nothing last: it may be there for another reason than its cost.
std::vector<const Finding*> in_reading_order(const Report& report) {
  std::vector<const Finding*> all;
  for (const Finding& f : report.findings) all.push_back(&f);
  std::ranges::stable_sort(all, {}, [&](const Finding* f) {
    if (f->rule == report.verdict_rule) return 0;
    if (f->cost_ns == 0) return 3;
    return is_minor(*f) ? 2 : 1;
  });
  return all;
}

}  // namespace

Lines finding_lines(const Report& report, const PresentOptions& options, bool whole) {
  if (report.findings.empty()) {
    if (report.ranks.empty() && !whole) return {};
    if (report.verdict_kind == VerdictKind::kInconclusive)
      return {Line("No findings, but too little was recorded to be sure ", Style::kStrong)
                  .add("(--section checklist)")};
    const bool all = !report.checklist.empty() && std::ranges::all_of(report.checklist, [](const Check& c) {
      return c.verdict == Verdict::kPass;
    });
    return {Line("No findings: ", Style::kStrong).add(all ? "every check passed" : "no rule is over its threshold")};
  }
  FindingLines lines(report, layout_width(options));
  lines.heading();
  for (const Finding* finding : in_reading_order(report)) {
    lines.headline(*finding);
    if (whole || options.verbose) lines.whole(*finding);
    else lines.brief(*finding);
  }
  return lines.take();
}

Lines brief_finding_lines(const Report& report, const PresentOptions& options, size_t most, bool all_fixes) {
  if (report.findings.empty()) return finding_lines(report, options, false);
  FindingLines lines(report, layout_width(options));
  lines.heading();
  const size_t shown = std::min(most, report.findings.size());
  const std::vector<const Finding*> findings = in_reading_order(report);
  for (size_t i = 0; i < shown; ++i) lines.short_form(*findings[i], i == 0 ? 2 : all_fixes ? 1 : 0);
  Lines out = lines.take();
  if (shown < report.findings.size()) out.push_back(more_line(report.findings.size() - shown, "--section findings"));
  return out;
}

bool has_section(const Report& report, std::string_view name) {
  if (name == "findings" || name == "inputs") return true;
  if (name == "checklist") return !report.checklist.empty();
  if (name == "cluster") return report.job != nullptr;
  if (name == "log") return !report.logs.empty();
  if (name == "hang") return report.flight.has_value();
  if (find_section(name) == nullptr) return false;
  const bool known = std::ranges::any_of(report.ranks, [&](const RankReport& rank) {
    return !section_value(rank, name).is_null();
  });
  return known || !section_parts(report, name, 1).empty();   // which say what to record
}

std::vector<std::string> section_names(const Report& report) {
  const auto is_empty = [&](std::string_view name) {
    return find_section(name) != nullptr && std::ranges::all_of(report.ranks, [&](const RankReport& rank) {
             const Value content = section_value(rank, name);
             return content.is_null() || (content.table() != nullptr && content.table()->rows.empty());
           });
  };
  std::vector<std::string> names;
  for (const std::string_view name : kReportSections)
    if (name != "brief" && has_section(report, name) && !is_empty(name)) names.emplace_back(name);
  return names;
}

namespace {

// The column that blocks of columns repeat: the short name if there is one, else the first text.
size_t key_column(const Table& table) {
  for (const std::string_view name : {"short_name", "name", "cause", "path"})
    if (const int c = table.column(name); c >= 0) return static_cast<size_t>(c);
  for (size_t c = 0; c < table.columns.size(); ++c)
    if (!is_numeric_column(table, c)) return c;
  return 0;
}

/// Values of a section in full, each below its title.
class SectionLines {
 public:
  explicit SectionLines(const PresentOptions& options) : options_(options) {}

  Lines out;
  Origin origin;   ///< of instants

  void title(Line line) { append(out, {Line(), std::move(line)}); }
  void text(Line first, std::string_view text, Style style = Style::kPlain) {
    append(out, wrapped_after(std::move(first), text, options_.width, style));
  }

  void value(const std::string& name, const Value& value, std::string_view column = "") {
    if (const Table* t = value.table()) return table(name, *t);
    if (const Record* r = value.record()) return record(name, *r);
    title(Line(name, Style::kStrong));
    text(Line().skip(2), cell_text(column, value, origin));
  }

  void table(const std::string& name, const Table& table) {
    Line heading(name, Style::kStrong);
    const bool instants = std::ranges::any_of(table.columns, is_instant);
    if (table.rows.empty()) heading.add(": nothing in this trace");
    else if (instants && origin.first_step_ns) heading.add("   times count from the first step", Style::kFaint);
    title(std::move(heading));
    if (table.rows.empty()) return;
    curves(table);
    rows(table);
    nested(name, table);
  }

  void rows(const Table& table) {
    const size_t shown = shown_rows(table.rows.size(), options_.top);
    const Grid grid = value_grid(table, {.rows = shown, .origin = origin, .aligned = true});
    append(out, grid.lines(options_.width, key_column(table)));
    if (shown < table.rows.size()) out.push_back(more_line(table.rows.size() - shown, "--top 0 shows all"));
  }

 private:
  // For tables over time, whose first ten rows show little.
  void curves(const Table& table) {
    if (table.column("time_ns") < 0 || table.rows.size() < 8) return;
    int width = 10;
    for (const std::string& column : table.columns)
      if (!is_instant(column)) width = std::max(width, static_cast<int>(column_title(column).size()) + 1);
    for (size_t c = 0; c < table.columns.size(); ++c) {
      if (is_instant(table.columns[c])) continue;
      std::vector<double> values;
      for (const auto& row : table.rows) values.push_back(c < row.size() ? row[c].number(-1) : -1);
      const double most = *std::ranges::max_element(values);
      if (!(most > 0)) continue;
      Line& line = out.emplace_back();
      line.skip(2).add(padded_right(column_title(table.columns[c]), width)).add(curve(values, 40), Style::kNote);
      line.add("  up to ").add(cell_text(table.columns[c], most, {}));
    }
  }

  // Tables within rows, which their cells only summarize, each under its row's name.
  void nested(const std::string& name, const Table& table) {
    const size_t key = key_column(table);
    for (size_t r = 0; r < shown_rows(table.rows.size(), options_.top); ++r)
      for (size_t c = 0; c < table.rows[r].size() && c < table.columns.size(); ++c) {
        const std::vector<Value>& row = table.rows[r];
        if (const Table* inner = row[c].table(); !inner || inner->rows.empty()) continue;
        const std::string whose = key < row.size() ? cell_text(table.columns[key], row[key], {}) : "";
        value(name + ", " + whose + ": " + column_title(table.columns[c]), row[c]);
      }
  }

  void record(const std::string& name, const Record& record) {
    title(Line(name, Style::kStrong));
    int label = 0;
    for (const auto& [field, value] : record.fields)
      label = std::max(label, std::min(40, display_width(sanitised(column_title(field)))));
    for (const auto& [field, value] : record.fields) {
      if (value.table() || value.record()) continue;
      Line line;
      line.skip(2).add(padded_right(truncated(sanitised(column_title(field)), label), label)).skip(2);
      text(std::move(line), cell_text(field, value, origin));
    }
    for (const auto& [field, content] : record.fields)
      if (content.table() || content.record()) value(name + ": " + column_title(field), content);
  }

  const PresentOptions& options_;
};

// Names of phases are our own codes, to be shown as words.
Value with_phase_names(const Section& section, Value content) {
  if (section.name != "phases") return content;
  Table named = *content.table();
  named.columns.front() = "phase";
  return named;
}

// What there is of a record: most fields of some need a recording of another kind.
Value known_of(const Value& whole, std::string_view left_out = {}) {
  if (whole.record() == nullptr) return whole;
  Record known;
  for (const auto& [name, value] : whole.record()->fields)
    if (name != left_out && !value.is_null() && (value.table() == nullptr || !value.table()->rows.empty()))
      known.add(name, value);
  return known;
}

// A snapshot in sentences, then its tables.
void add_snapshot(const Report& report, const RankReport& rank, SectionLines& to) {
  const SnapshotParts parts = snapshot_parts(*rank.snapshot, rank.memory.capacity_bytes, 0);
  to.out.emplace_back();
  to.text(Line(), parts.sentence);
  for (const std::string& text : parts.categories.sentences) to.text(Line("- "), sanitised(text));
  const ReportPart savings = savings_part(*rank.snapshot, SIZE_MAX, true);
  if (!savings.sentences.empty()) to.title(Line(savings.title + rank_suffix(report, rank), Style::kStrong));
  for (const std::string& text : savings.sentences) to.text(Line("- "), sanitised(text));
}

void add_rank_sections(const Report& report, const Section& section, SectionLines& to) {
  for (const RankReport& rank : report.ranks) {
    to.origin = origin_of(rank);
    if (section.name == "snapshot" && rank.snapshot) {
      add_snapshot(report, rank, to);
      to.value(std::string(section.title) + rank_suffix(report, rank),
               known_of(section_value(rank, section.name), "savings"));
      continue;
    }
    to.value(std::string(section.title) + rank_suffix(report, rank),
             with_phase_names(section, section_value(rank, section.name)));
  }
}

void add_inputs(const Report& report, SectionLines& to) {
  Table table{{"path", "format", "file_bytes", "events", "rank"}, {}};
  for (const InputFile& input : report.inputs)
    table.rows.push_back({input.path, input.format, input.file_bytes, input.events, input.rank});
  to.table("Inputs", table);
  for (const InputFile& input : report.inputs) {
    if (input.issues.empty()) continue;
    to.out.emplace_back();
    to.text(Line(), input.path, Style::kStrong);
    for (const Issue& issue : input.issues) to.text(Line("! ", severity_style(issue.severity)), issue.text);
  }
}

Lines check_table(const Report& report, const PresentOptions& options) {
  Grid grid({{"verdict"}, {"question"}, {"measured", true}});
  Lines open;
  for (const Check& check : report.checklist) {
    const std::string_view verdict = check.applies ? verdict_name(check.verdict) : "n/a";
    grid.add_row({{std::string(verdict), verdict_style(check.verdict)},
                  {check.question}, {check.value ? format_percent(*check.value) : ""}});
    if (!check.record.empty())
      append(open, wrapped_after(Line("  "), check.question + " Record " + check.record, options.width));
  }
  Lines out{Line("Checklist", Style::kStrong)};
  if (!grid.empty()) append(out, grid.lines(options.width, 1));
  if (!open.empty()) append(out, {Line(), Line("To answer the others", Style::kStrong)});
  append(out, std::move(open));
  return out;
}

void add_cluster(const Report& report, const PresentOptions& options, SectionLines& to) {
  for (const ReportPart& part : cluster_parts(report, static_cast<size_t>(std::max(options.top, 0)))) {
    to.out.emplace_back();
    to.text(Line(), part.title, Style::kStrong);
    for (const std::string& text : part.sentences) to.text(Line("- "), sanitised(text));
    if (!part.table.rows.empty()) to.rows(part.table);
  }
}

bool add_own_parts(const Report& report, const PresentOptions& options, SectionLines& to) {
  const std::vector<ReportPart> parts =
      section_parts(report, options.section, options.top > 0 ? static_cast<size_t>(options.top) : SIZE_MAX);
  for (const ReportPart& part : parts) {
    to.title(Line(part.title, Style::kStrong));
    for (const std::string& text : part.sentences) to.text(Line().skip(2), sanitised(text));
    if (!part.table.rows.empty()) to.rows(part.table);
  }
  return !parts.empty();
}

// What a section needs that an input may lack; empty: any trace of the kind has it.
std::string_view source_of_section(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kSources[] = {
      {"cluster", "traces of several ranks"},  {"log", "a training log"},
      {"hang", "NCCL flight recorder dumps"},  {"snapshot", "a memory snapshot"},
      {"serving", "steps of an inference engine"}, {"counters", "a report of Nsight Compute"},
      {"model", "--model-config"},             {"energy", "device samples"},
      {"mpi", "a recording of an MPI program"}, {"checklist", "steps of a program"}};
  const auto* found = std::ranges::find(kSources, name, [](const auto& source) { return source.first; });
  return found != std::end(kSources) ? found->second : "";
}

std::string missing_section(const Report& report, const std::string& name) {
  const std::string_view source = source_of_section(name);
  return fmt::format("This input has nothing for --section {}{}. It has: {}", name,
                     source.empty() ? "" : fmt::format(" ({})", source), joined(section_names(report)));
}

// When the first rank called it is a time of day, not how long ago.
void add_hang(const FlightReport& flight, SectionLines& to) {
  const Value whole = value_of(flight);
  Record shown;
  for (const auto& [name, value] : whole.record()->fields) {
    if (name != "waits" || value.table() == nullptr) {
      shown.add(name, value);
      continue;
    }
    Table waits = *value.table();
    const int since = waits.column("since_ns");
    if (since >= 0) waits.columns[static_cast<size_t>(since)] = "since";
    for (auto& row : waits.rows)
      if (since >= 0 && row[static_cast<size_t>(since)].integer() != nullptr)
        row[static_cast<size_t>(since)] = clock_time(*row[static_cast<size_t>(since)].integer());
    shown.add("waits", std::move(waits));
  }
  to.value("NCCL flight recorder", shown);
}

void add_logs(const Report& report, SectionLines& to) {
  for (const LogReport& log : report.logs) {
    to.value("Log " + log.path, known_of(value_of(log)));
  }
}

}  // namespace

Lines section_lines(const Report& report, const PresentOptions& options) {
  if (options.section == "findings") return finding_lines(report, options, true);
  if (options.section == "checklist" && has_section(report, "checklist")) return check_table(report, options);
  SectionLines lines(options);
  if (options.section == "inputs") add_inputs(report, lines);
  else if (!has_section(report, options.section))
    lines.text(Line(), missing_section(report, options.section));
  else if (options.section == "cluster") add_cluster(report, options, lines);
  else if (options.section == "log") add_logs(report, lines);
  else if (options.section == "hang") add_hang(*report.flight, lines);
  else if (!add_own_parts(report, options, lines))
    add_rank_sections(report, *find_section(options.section), lines);
  return std::move(lines.out);
}

}  // namespace profgpu
