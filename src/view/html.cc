// A report as one HTML file: the page with the data that it shows, and below it the report as plain HTML for readers
// without script. Built without the page, it is the plain one.
#include "view/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "analyse/report/quantity.h"
#include "analyse/report/text.h"
#include "base/gzip.h"
#include "view/device_lines.h"
#include "view/overview.h"
#include "view/registry.h"
#include "view/wording.h"

#ifdef PROFGPU_HAS_PAGE
extern "C" const char profgpu_page_begin[], profgpu_page_end[];   // cmake/page.cmake
#endif

namespace profgpu {

std::string_view page_template() {
#ifdef PROFGPU_HAS_PAGE
  return {profgpu_page_begin, static_cast<size_t>(profgpu_page_end - profgpu_page_begin)};
#else
  return {};
#endif
}

std::string html_text(std::string_view text, int most) {
  std::string out;
  for (const char c : truncated(sanitised(text), most)) {
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

namespace {

constexpr size_t kMaxIssues = 30;
constexpr size_t kMaxRanks = 32;
constexpr size_t kRows = 30;         // of long tables, unless --top says otherwise
constexpr int kCell = 300;           // cells of text in a table

// The bars of `bars_pct`, one a row, stand behind the first column; a reader without colours sees their length too.
std::string table(const Grid& grid, const std::vector<double>& bars_pct = {}) {
  const auto cell = [&](const char* tag, size_t column, const std::string& text) {
    const char* const kind = grid.columns()[column].right ? " class=\"number\"" : "";
    return fmt::format("<{0}{1}>{2}</{0}>", tag, kind, html_text(text, kCell));
  };
  std::string out = "<table>\n<thead><tr>";
  for (size_t c = 0; c < grid.columns().size(); ++c)
    out += cell("th", c, grid.columns()[c].header) + (c == 0 && !bars_pct.empty() ? "<th></th>" : "");
  out += "</tr></thead>\n<tbody>\n";
  for (size_t r = 0; r < grid.rows().size(); ++r) {
    out += "<tr>";
    for (size_t c = 0; c < grid.columns().size(); ++c) {
      out += cell("td", c, grid.rows()[r][c].text);
      if (c == 0 && !bars_pct.empty())
        out += fmt::format("<td><meter min=\"0\" max=\"100\" value=\"{:.1f}\"></meter></td>",
                           std::clamp(bars_pct[r], 0.0, 100.0));
    }
    out += "</tr>\n";
  }
  return out + "</tbody>\n</table>\n";
}

std::string element(const char* tag, const std::string& html) { return fmt::format("<{0}>{1}</{0}>\n", tag, html); }

std::string heading(std::string_view text) { return element("h2", html_text(text)); }

std::string more(size_t rows) { return rows > 0 ? fmt::format("<p>… and {} more</p>\n", rows) : ""; }

std::string lines(const char* tag, std::string_view text) {
  std::string out;
  for (const std::string_view line : lines_of(text)) out += (out.empty() ? "" : "<br>") + html_text(line);
  return element(tag, out);
}

std::string inputs(const Report& report) {
  std::string names;
  for (const InputFile& input : report.inputs) {
    if (&input - report.inputs.data() == 3) {
      names += " and " + plural(static_cast<int64_t>(report.inputs.size()) - 3, "other file", "other files");
      break;
    }
    names += (names.empty() ? "" : ", ") + html_text(input.path, 200);
  }
  std::string issues;
  size_t count = 0;
  for (const InputFile& input : report.inputs)
    for (const Issue& issue : input.issues)
      if (++count <= kMaxIssues)
        issues +=
            lines("li", (report.inputs.size() > 1 && !issue.text.starts_with(input.path) ? input.path + ": " : "") +
                            issue.text);
  if (count > kMaxIssues) issues += element("li", fmt::format("… and {} more", count - kMaxIssues));
  return element("h1", names) + (issues.empty() ? "" : "<ul class=\"issues\">\n" + issues + "</ul>\n");
}

std::string list(const std::vector<std::string>& texts, const char* kind) {
  std::string out;
  for (const std::string& text : texts) out += lines("li", text);
  return out.empty() ? out : fmt::format("<ul class=\"{}\">\n", kind) + out + "</ul>\n";
}

std::string ranks(const Report& report) {
  const std::vector<RankStanding>& all = report.standings;
  if (all.empty()) return {};
  Grid grid({{"rank", true}, {"host"}, {"mean step", true}, {"GPU busy", true}, {""}});
  for (size_t i = 0; i < std::min(all.size(), kMaxRanks); ++i)   // the latest come first
    grid.add_row({{std::to_string(all[i].rank)},
                  {all[i].host},
                  {format_value(all[i].step_ns, Unit::kNanoseconds)},
                  {format_value(all[i].busy_pct, Unit::kPercent)},
                  {late_text(all[i])}});
  const JobOverview job = job_overview(report);
  const std::string out = heading(job.title) + list(job.missing, "issues") + table(grid) +
                          more(all.size() - grid.rows().size());
  return out + list(job.notes, "issues") + list(job.remarks, "evidence");
}

std::string shares(const std::string& title, const std::vector<Share>& all) {
  if (all.empty()) return {};
  Grid grid({{""}, {"time", true}, {"share", true}});
  std::vector<double> bars;
  for (const Share& share : all) {
    grid.add_row({{share.name}, {format_value(share.ns, Unit::kNanoseconds)}, {format_percent(share.pct)}});
    bars.push_back(share.pct);
  }
  return heading(title) + table(grid, bars);
}

std::string device(const DeviceOverview& d) {
  std::vector<Share> all;
  if (d.busy_pct) all.push_back({"busy", std::nullopt, *d.busy_pct});
  for (const Share& cause : d.causes) all.push_back({"idle: " + cause.name, cause.ns, cause.pct});
  std::string notes;
  for (const std::string& note : d.notes) notes += element("p", html_text(note));
  return shares(d.title, all) + notes;
}

std::string times(const Report& report) {
  const RankReport* rank = report.rank_in_focus();
  if (!rank) return {};
  const StepOverview step = step_overview(*rank);
  std::string out = shares(step.title + rank_suffix(report, *rank), step.phases);
  for (const DeviceOverview& d : device_overviews(*rank)) out += device(d);
  return out;
}

std::string telemetry(const Report& report) {
  if (report.telemetry.empty()) return {};
  std::string notes;
  for (const DeviceTelemetry& t : report.telemetry)
    for (const std::string& said : {errors_text(t), t.notes_text()})
      if (!said.empty()) notes += element("p", "GPU " + html_text(t.device_label(), kCell) + ": " + html_text(said));
  return heading(report.ranks.empty() ? "Devices" : "Devices while the trace was recorded") +
         table(device_grid(report.telemetry)) + notes;
}

std::string finding(const Report& report, const Finding& f) {
  const std::optional<double> cost = cost_of_step(report, f);
  const std::string whose = ranks_concerned(report, f);
  std::string head = html_text(f.rule) + fmt::format(" <small>{}</small>", severity_name(f.severity));
  if (cost) head += " costs " + html_text(format_duration(*cost, 2)) + " a step";
  if (cost && f.cost_pct) head += " (" + html_text(format_percent(*f.cost_pct, 0)) + ")";
  std::string out =
      element("h3", head) + element("p", (whose.empty() ? "" : html_text(whose) + ": ") + html_text(f.what));
  if (!f.why.empty()) out += lines("p", f.why);
  if (!f.fix.empty()) out += "<p>Change:</p>\n" + list(f.fix, "fix");
  if (!f.evidence.empty()) out += "<p>Seen:</p>\n" + list(f.evidence, "evidence");
  return fmt::format("<li class=\"{}\">\n", severity_name(f.severity)) + out + "</li>\n";
}

std::string findings(const Report& report) {
  if (report.findings.empty()) return report.ranks.empty() ? "" : element("p", "No findings.");
  std::string out;
  for (const Finding& f : report.findings) out += finding(report, f);
  return heading("Findings, dearest first") + "<ol class=\"findings\">\n" + out + "</ol>\n";
}

std::string checklist(const Report& report) {
  std::string out;
  for (const Check& c : report.checklist)
    out += fmt::format("<li class=\"{}\">{}{}</li>\n", verdict_name(c.verdict), check_mark(c.verdict),
                       html_text(c.brief.empty() ? c.question : c.brief));
  return out.empty() ? out : heading("Checklist") + "<ul class=\"checklist\">\n" + out + "</ul>\n";
}

std::string content(const Value& v, const PresentOptions& options, const Origin& origin) {
  if (const Record* record = v.record()) {
    const Grid grid = record_grid(*record, {0, origin}, false);
    return grid.empty() ? "" : table(grid);
  }
  const Table* t = v.table();
  if (!t || t->rows.empty()) return {};
  const size_t most = options.top == PresentOptions{}.top ? kRows
                      : options.top > 0                   ? static_cast<size_t>(options.top)
                                                          : t->rows.size();
  const Grid grid = value_grid(*t, {most, origin});
  return table(grid) + more(t->rows.size() - grid.rows().size());
}

// Without the first part, which ranks() shows.
std::string cluster(const Report& report, const PresentOptions& options) {
  const std::vector<ReportPart> parts = cluster_parts(report, static_cast<size_t>(std::max(options.top, 0)));
  std::string out;
  for (size_t i = 1; i < parts.size(); ++i)
    out += heading(parts[i].title) + list(parts[i].sentences, "evidence") + content(parts[i].table, options, {});
  return out;
}

std::string serving(const Report& report, const PresentOptions& options) {
  const RankReport* rank = report.rank_in_focus();
  if (!rank || !rank->serving) return {};
  const ReportPart part = serving_part(*rank->serving);
  return heading(part.title + rank_suffix(report, *rank)) + content(part.table, options, {}) +
         list(part.sentences, "evidence");
}

// The tables of the rank that the first screen looks into.
std::string rank_tables(const Report& report, const PresentOptions& options) {
  const RankReport* rank = report.rank_in_focus();
  if (!rank) return {};
  std::string out;
  for (const Section& section : sections()) {
    if (std::string_view(section.name) == "serving") continue;   // serving() shows it
    const std::string shown = content(section_value(*rank, section.name), options, origin_of(*rank));
    if (!shown.empty()) out += heading(std::string(section.title) + rank_suffix(report, *rank)) + shown;
  }
  return out;
}

std::string next(const Report& report) {
  std::string out;
  for (const std::string& command : report.next) out += element("li", "<code>" + html_text(command) + "</code>");
  return out.empty() ? out : heading("Next") + "<ul>\n" + out + "</ul>\n";
}

}  // namespace

std::string html_report(const Report& report, const PresentOptions& options) {
  std::string out = "<div id=\"static\">\n" + inputs(report);
  if (!report.verdict.empty()) out += "<p class=\"verdict\">" + html_text(report.verdict) + "</p>\n";
  out += ranks(report) + times(report) + serving(report, options) + telemetry(report) + findings(report);
  return out + checklist(report) + cluster(report, options) + rank_tables(report, options) + next(report) + "</div>\n";
}

namespace {

// Nothing may be fetched and nothing may run, whatever a report holds.
constexpr std::string_view kPlainPage = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title><!--profgpu:title--></title>
<style>
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 72rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1rem 0 .25rem; }
p, ul { margin: .25rem 0; }
.verdict { font-size: 1.15rem; font-weight: 600; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .15rem .75rem .15rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid #8884; overflow-wrap: anywhere; }
th { font-weight: 600; }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
meter { width: 12rem; height: .9rem; }
.checklist { list-style: none; padding: 0; }
li.critical > h3 { text-decoration: underline; }
@media print { body { max-width: none; } h2, h3 { break-after: avoid; } tr, .findings > li { break-inside: avoid; } }
</style>
</head>
<body>
<!--profgpu:report-->
</body>
</html>
)";

std::string page_title(const Report& report) {
  if (report.inputs.empty()) return "report";
  const std::string folder = folder_of_inputs(report);
  const std::string& path = folder.empty() ? report.inputs.front().path : folder;
  const std::string name = path.substr(path.find_last_of('/') + 1);
  if (!folder.empty() || report.inputs.size() == 1) return name;
  return fmt::format("{} and {} more", name, report.inputs.size() - 1);
}

std::string data_element(const Report& report) {
  static const PageData kNone;
  std::string json = json_report(report, {});
  const std::string pack = packed(json, report.page ? *report.page : kNone);
  // The page begins with the rank that the first screen of the terminal shows.
  const RankReport* rank = report.rank_in_focus();
  return fmt::format("<script type=\"application/octet-stream\" data-name=\"{}\" data-rank=\"{}\" id=\"data\">",
                     html_text(page_title(report), 200), rank ? rank->rank : 0) +
         base64(gzipped(pack)) + "</script>\n";
}

// The marks are looked for in the template only: what takes their place is not read again.
std::string filled(std::string_view page, const Report& report, const PresentOptions& options) {
  constexpr std::string_view kMark = "<!--profgpu:", kMarkEnd = "-->";
  std::string out;
  for (size_t mark = page.find(kMark); mark != std::string_view::npos; mark = page.find(kMark)) {
    out += page.substr(0, mark);
    page.remove_prefix(mark + kMark.size());
    const size_t end = page.find(kMarkEnd);
    const std::string_view name = page.substr(0, end);
    if (name == "title") out += html_text(page_title(report), 200) + " – profgpu";
    if (name == "report") out += html_report(report, options);
    if (name == "data") out += data_element(report);
    page.remove_prefix(std::min(page.size(), end + kMarkEnd.size()));
  }
  out += page;
  return out;
}

std::string write_html(const Report& report, const PresentOptions& options) {
  const std::string_view page = page_template();
  return filled(page.empty() ? kPlainPage : page, report, options);
}

}  // namespace

extern const Presenter kHtmlPresenter;
const Presenter kHtmlPresenter{"html", "one page with everything, timeline included, that opens in any browser",
                               write_html};

}  // namespace profgpu
