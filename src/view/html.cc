// A report as one HTML file: the page with its data, and below it the report as plain HTML for readers without script.
// Built without the page, only the plain report.
#include <fmt/format.h>

#include <algorithm>

#include "analyse/report/text.h"
#include "base/gzip.h"
#include "base/text.h"
#include "view/document.h"
#include "view/registry.h"

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

std::string html_text(std::string_view text, int most) { return html_escaped(truncated(sanitised(text), most)); }

namespace {

class HtmlRenderer final : public Renderer {
 public:
  void heading(int level, const Runs& runs) override { out += fmt::format("<h{0}>{1}</h{0}>\n", level, text_of(runs)); }
  void paragraph(const Runs& runs) override { out += "<p>" + text_of(runs) + "</p>\n"; }
  void list(const std::vector<ListItem>& items, bool numbered) override {
    if (items.empty()) return;
    const char* const tag = numbered ? "ol" : "ul";
    out += fmt::format("<{}>\n", tag);
    for (const ListItem& item : items) {
      out += "<li>" + text_of(item.runs);
      for (const Runs& below : item.below)
        out += (&below == &item.below.front() ? "\n<ul>\n<li>" : "<li>") + text_of(below) + "</li>\n";
      out += item.below.empty() ? "</li>\n" : "</ul></li>\n";
    }
    out += fmt::format("</{}>\n", tag);
  }
  // A bar follows the first column; readers without colours see its length too.
  void table(const Grid& grid, const std::vector<double>& bars_pct) override {
    const auto cell = [&](const char* tag, size_t column, const std::string& text) {
      const char* const kind = grid.columns()[column].right ? " class=\"number\"" : "";
      return fmt::format("<{0}{1}>{2}</{0}>", tag, kind, html_text(text, 300));
    };
    out += "<table>\n<thead><tr>";
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
    out += "</tbody>\n</table>\n";
  }

 private:
  static std::string text_of(const Runs& runs) {
    std::string out;
    for (const Run& run : runs) {
      std::string text;
      if (run.as != Run::As::kLines) text = html_text(run.text);
      else
        for (const std::string_view line : lines_of(run.text)) text += (text.empty() ? "" : "<br>") + html_text(line);
      out += run.as == Run::As::kCode      ? "<code>" + text + "</code>"
             : run.as == Run::As::kStrong  ? "<b>" + text + "</b>"
             : run.as == Run::As::kWarning ? "<b>!</b> "
                                           : text;
    }
    return out;
  }
};

}  // namespace

std::string html_report(const Report& report, const PresentOptions& options) {
  constexpr int kRows = 30;
  HtmlRenderer to;
  render_report(report, options, true, kRows, to);
  return "<div id=\"static\">\n" + to.out + "</div>\n";
}

namespace {

// Loads nothing and runs nothing, whatever a report contains.
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
p, ul { margin: .25rem 0; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .15rem .75rem .15rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid #8884; overflow-wrap: anywhere; }
th { font-weight: 600; overflow-wrap: normal; }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
meter { width: 12rem; height: .9rem; }
@media (max-width: 40rem) { table { font-size: .75rem; } th, td { padding-right: .4rem; } }
@media print { body { max-width: none; } h2 { break-after: avoid; } tr, li { break-inside: avoid; } }
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
  const std::string name(base_name(path));
  if (!folder.empty() || report.inputs.size() == 1) return name;
  return fmt::format("{} and {} more", name, report.inputs.size() - 1);
}

// Replaces one mark of the template.
void put_in(std::string& page, std::string_view mark, std::string_view text) {
  if (const size_t at = page.find(mark); at != page.npos) page.replace(at, mark.size(), text);
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

// Marks are replaced in the template only, not in the inserted text.
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

std::string plain_page(std::string_view title, std::string_view body) {
  std::string page(kPlainPage);
  put_in(page, "<!--profgpu:title-->", title);
  put_in(page, "<!--profgpu:report-->", body);
  return page;
}

extern const Presenter kHtmlPresenter{"html", "one page with everything, timeline included, that opens in any browser",
                                      write_html};

}  // namespace profgpu
