#include "view/markdown.h"

#include <algorithm>
#include <cctype>

#include "analyse/report/quantity.h"
#include "analyse/report/text.h"
#include "view/device_lines.h"
#include "view/overview.h"
#include "view/terminal.h"
#include "view/wording.h"

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

std::string markdown_table(const Grid& grid) {
  std::string out = "|";
  for (const GridColumn& c : grid.columns()) out += " " + markdown_text(c.header) + " |";
  out += "\n|";
  for (const GridColumn& c : grid.columns()) out += c.right ? " ---: |" : " --- |";
  out += '\n';
  for (const auto& row : grid.rows()) {
    out += '|';
    for (const Cell& cell : row)
      out += " " + (cell.holds == Holds::kOurs    ? cell.text
                    : cell.holds == Holds::kWords ? markdown_text(cell.text)
                                                  : markdown_code(cell.text, true)) + " |";
    out += '\n';
  }
  return out + '\n';
}

namespace markdown {
namespace {

constexpr size_t kMaxIssuesWritten = 10;
constexpr size_t kMaxRanks = 16;

std::string heading(std::string_view text) { return "### " + markdown_text(text) + "\n\n"; }

std::string more(size_t rows) { return rows > 0 ? "… and " + std::to_string(rows) + " more\n\n" : ""; }

std::string inputs(const Report& report) {
  if (report.inputs.empty()) return {};
  const InputFile& first = report.inputs.front();
  const size_t count = report.inputs.size();
  std::string out = "## " + markdown_code(first.path, false);
  if (count > 1) out += " and " + plural(static_cast<int64_t>(count) - 1, "other file", "other files");
  out += "\n\n";
  size_t shown = 0;
  for (const InputFile& input : report.inputs)
    for (const Issue& issue : input.issues)
      if (shown++ < kMaxIssuesWritten) out += "- **!** " + markdown_text(issue.text) + "\n";
  if (shown > kMaxIssuesWritten) out += "- … and " + std::to_string(shown - kMaxIssuesWritten) + " more\n";
  return shown ? out + "\n" : out;
}

std::string bullets(const std::vector<std::string>& texts, const char* mark = "") {
  std::string out;
  for (const std::string& text : texts) out += "- " + (mark + markdown_text(text)) + "\n";
  return out.empty() ? out : out + "\n";
}

std::string ranks(const Report& report) {
  const std::vector<RankStanding>& all = report.standings;
  if (all.empty()) return {};
  Grid grid({{"rank", true}, {"host"}, {"mean step", true}, {"GPU busy", true}, {""}});
  for (size_t i = 0; i < std::min(all.size(), kMaxRanks); ++i)   // the latest come first
    grid.add_row({{std::to_string(all[i].rank)},
                  {all[i].host, Style::kPlain, Holds::kName},
                  {format_value(all[i].step_ns, Unit::kNanoseconds)},
                  {format_value(all[i].busy_pct, Unit::kPercent)},
                  {late_text(all[i])}});
  const JobOverview job = job_overview(report);
  const std::string out = heading(job.title) + bullets(job.missing, "**!** ") + markdown_table(grid) +
                          more(all.size() - grid.rows().size());
  return out + bullets(job.notes, "**!** ") + bullets(job.remarks);
}

std::string shares(const std::string& title, const std::vector<Share>& all) {
  if (all.empty()) return {};
  Grid grid({{""}, {"time", true}, {"share", true}});
  for (const Share& share : all)
    grid.add_row({{share.name, Style::kPlain, Holds::kWords},
                  {format_value(share.ns, Unit::kNanoseconds)},
                  {format_percent(share.pct)}});
  return heading(title) + markdown_table(grid);
}

std::string device(const DeviceOverview& d) {
  std::string line = "- **" + markdown_text(d.name) + "**";
  if (d.busy_pct) line += " busy " + format_percent(*d.busy_pct);
  if (d.idle_pct) line += ", idle " + format_percent(*d.idle_pct);
  for (size_t i = 0; i < d.causes.size(); ++i)
    line += (i ? ", " : ": ") + markdown_text(d.causes[i].name) + " " + format_percent(d.causes[i].pct);
  for (const std::string& note : d.notes) line += "; " + markdown_text(note);
  return line + "\n";
}

std::string times(const Report& report) {
  const RankReport* rank = report.rank_in_focus();
  if (!rank) return {};
  const StepOverview step = step_overview(*rank);
  std::string out = shares(step.title + rank_suffix(report, *rank), step.phases);
  const std::vector<DeviceOverview> devices = device_overviews(*rank);
  for (const DeviceOverview& d : devices) out += device(d);
  return devices.empty() ? out : out + "\n";
}

std::string telemetry(const Report& report) {
  if (report.telemetry.empty()) return {};
  std::string notes;
  for (const DeviceTelemetry& t : report.telemetry)
    for (const std::string& said : {errors_text(t), t.notes_text()})
      if (!said.empty()) notes += "- **!** GPU " + markdown_text(t.device_label()) + ": " + markdown_text(said) + "\n";
  return heading(report.ranks.empty() ? "Devices" : "Devices while the trace was recorded") +
         markdown_table(device_grid(report.telemetry)) + (notes.empty() ? "" : notes + "\n");
}

// A setting or a call reads best as code; sentences do not.
bool is_code(std::string_view text) {
  return text.find('\n') == std::string_view::npos && text.find(". ") == std::string_view::npos &&
         text.find_first_of("(=") != std::string_view::npos;
}

std::string fix(const std::string& text) {
  if (is_code(text)) return "    - change: " + markdown_code(text, false, 500) + "\n";
  std::string out;
  for (const std::string_view line : lines_of(text))
    out += (out.empty() ? "    - change: " : "      ") + markdown_text(line) + "\n";
  return out;
}

std::string finding(const Report& report, const Finding& f, size_t number) {
  const std::optional<double> cost = cost_of_step(report, f);
  const std::string ranks = ranks_concerned(report, f);
  std::string out = std::to_string(number) + ". **" + markdown_text(f.rule) + "** (";
  out.append(severity_name(f.severity)).append(")");
  if (cost) out += " costs **" + format_duration(*cost, 2) + "** a step";
  if (cost && f.cost_pct) out += " (" + format_percent(*f.cost_pct, 0) + ")";
  out += ": " + (ranks.empty() ? "" : ranks + ": ") + markdown_text(f.what) + "\n";
  for (const std::string& text : f.fix) out += fix(text);
  for (const std::string& text : f.evidence) out += "    - " + markdown_text(text, 400) + "\n";
  for (const Place& p : f.where) {
    const std::string file = p.file.empty() ? "" : " (" + p.file + ":" + std::to_string(p.line.value_or(0)) + ")";
    out += "    - in " + markdown_text(p.name + file, 400) + ", " + format_duration(static_cast<double>(p.ns)) + "\n";
  }
  return out;
}

std::string findings(const Report& report) {
  if (report.findings.empty()) return report.ranks.empty() ? "" : "No findings.\n\n";
  std::string out = heading("Findings, dearest first");
  for (size_t i = 0; i < report.findings.size(); ++i) out += finding(report, report.findings[i], i + 1);
  return out + "\n";
}

std::string checklist(const Report& report) {
  if (report.checklist.empty()) return {};
  std::string out = heading("Checklist");
  for (const Check& c : report.checklist)
    out += "- " + std::string(check_mark(c.verdict)) + markdown_text(c.brief.empty() ? c.question : c.brief) + "\n";
  return out + "\n";
}

constexpr int kMaxCells = 200;   // of a text in a table

std::string table(const Table& t, int most, const Origin& origin, Holds holds = Holds::kName) {
  const size_t rows = most > 0 ? std::min(t.rows.size(), static_cast<size_t>(most)) : t.rows.size();
  return markdown_table(value_grid(t, {rows, origin, holds, kMaxCells})) + more(t.rows.size() - rows);
}

std::string value(const Value& v, const PresentOptions& options, const Origin& origin) {
  if (const Table* t = v.table())
    return t->rows.empty() ? "Nothing in this trace.\n\n" : table(*t, options.top, origin);
  const Record* record = v.record();
  if (!record) return (v.text() ? markdown_code(*v.text(), true) : cell_text("", v, origin)) + "\n\n";
  std::string nested;
  for (const auto& [name, field] : record->fields)
    if (field.table() || field.record()) nested += heading(column_title(name)) + value(field, options, origin);
  const Grid grid = record_grid(*record, {0, origin, Holds::kName, kMaxCells}, true);
  return (grid.empty() ? "" : markdown_table(grid)) + nested;
}

std::string top(const char* title, const Table& all, const PresentOptions& options) {
  const auto most = static_cast<size_t>(std::max(first_screen_rows(options), 0));
  const size_t rows = most > 0 ? std::min(all.rows.size(), most) : all.rows.size();
  return rows > 0 ? heading(title) + markdown_table(value_grid(all, {rows, {}, Holds::kName, kMaxCells})) : "";
}

std::string top_kernels(const Report& report, const PresentOptions& options) {
  Table t{{"short_name", "count", "total_ns", "mean_ns", "kernel_pct"}, {}};
  if (const RankReport* rank = report.rank_in_focus())
    for (const KernelRow& k : rank->kernels)
      t.rows.push_back({k.short_name, k.count, k.total_ns, whole_ns(k.mean_ns), k.kernel_pct});
  return top("Top kernels", t, options);
}

std::string top_ops(const Report& report, const PresentOptions& options) {
  Table t{{"name", "calls", "cpu_self_ns", "device_total_ns"}, {}};
  if (const RankReport* rank = report.rank_in_focus())
    for (const OpRow& o : rank->ops) t.rows.push_back({o.text, o.calls, o.cpu_self_ns, o.device_total_ns});
  return top("Top ops", t, options);
}

std::string next(const Report& report) {
  if (report.next.empty()) return {};
  std::string out = "Next:\n\n";
  for (const std::string& command : report.next) out += "- " + markdown_code(command, false, 400) + "\n";
  return out;
}

std::string cluster(const Report& report, const PresentOptions& options) {
  std::string out;
  for (const ReportPart& part : cluster_parts(report, static_cast<size_t>(std::max(options.top, 0)))) {
    out += heading(part.title) + bullets(part.sentences);
    if (!part.table.rows.empty()) out += table(part.table, options.top, {}, Holds::kWords);
  }
  return out;
}

std::string serving(const Report& report, const PresentOptions& options) {
  const RankReport* rank = report.rank_in_focus();
  if (!rank || !rank->serving) return {};
  const ReportPart part = serving_part(*rank->serving);
  return heading(part.title + rank_suffix(report, *rank)) + table(part.table, options.top, {}, Holds::kWords) +
         bullets(part.sentences);
}

std::string one_section(const Report& report, const PresentOptions& options) {
  if (options.section == "findings") return findings(report);
  if (options.section == "checklist") return checklist(report);
  if (options.section == "inputs") return inputs(report);
  if (options.section == "cluster") return cluster(report, options);
  std::string out;
  const Section* section = find_section(options.section);
  for (const RankReport& rank : report.ranks) {
    if (!section) break;
    out += heading(std::string(section->title) + rank_suffix(report, rank));
    out += value(section_value(rank, section->name), options, origin_of(rank));
  }
  return out;
}

std::string write_markdown(const Report& report, const PresentOptions& options) {
  if (!options.section.empty()) return one_section(report, options);
  std::string out = inputs(report);
  if (!report.verdict.empty()) out += "**" + markdown_text(report.verdict) + "**\n\n";
  out += ranks(report) + times(report) + serving(report, options) + telemetry(report) + findings(report);
  return out + checklist(report) + top_kernels(report, options) + top_ops(report, options) + next(report);
}

}  // namespace
}  // namespace markdown

extern const Presenter kMarkdownPresenter;
const Presenter kMarkdownPresenter{"markdown", "for a pull request or a chat", markdown::write_markdown};

}  // namespace profgpu
