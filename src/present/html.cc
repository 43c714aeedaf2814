// A report as one HTML file: the page with the data that it shows, and below it the report as plain HTML for readers
// without script. Built without the page, it is the plain one.
#include <fmt/format.h>

#include <string_view>

#include "base/gzip.h"
#include "present/html_report.h"
#include "present/html_text.h"
#include "present/overview.h"
#include "present/pack.h"
#include "present/page_template.h"
#include "present/registry.h"

namespace profgpu {

extern const Presenter kJsonPresenter;

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
  std::string json = kJsonPresenter.write(report, {});
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
const Presenter kHtmlPresenter{"html", "one page with everything, timeline included, that opens in any browser", write_html};

}  // namespace profgpu
