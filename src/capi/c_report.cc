// <profgpu/c.h>: reports.
#include <fmt/format.h>

#include "app/analyze.h"
#include "base/text.h"
#include "capi/c_values.h"
#include "view/registry.h"
#include "view/terminal.h"

struct profgpu_report {
  profgpu::Report report;
};

namespace profgpu {
namespace {

Error unknown_value(std::string_view option, std::string_view value, const std::string& known) {
  return {fmt::format("{} does not know \"{}\"", option.substr(2), value), "one of: " + known};
}

// As the program's own command line is checked.
Status check_choices(const GivenOptions& given) {
  for (const auto& [option, values] : given)
    for (const std::string& value : values) {
      if (option == "--format" && !find_presenter(value))
        return unknown_value(option, value, joined(names_of(presenters())));
      if (option == "--section" && std::ranges::find(kReportSections, value) == std::end(kReportSections))
        return unknown_value(option, value, joined(kReportSections));
      if (option == "--color" && std::ranges::find(kColours, value) == std::end(kColours))
        return unknown_value(option, value, joined(kColours));
    }
  return ok();
}

template <class Options, size_t N>
Status set_options(Options& options, const std::string_view (&names)[N], const GivenOptions& given) {
  for (const std::string_view name : names)
    if (const auto at = given.find(name); at != given.end())
      if (Status set = set_option(options, name, at->second); !set) return set;
  return ok();
}

Result<Report> analyzed(std::vector<std::string> paths, const profgpu_option* options, size_t count) {
  if (paths.empty()) return Error{"a path is needed"};
  auto given = given_options(
      options, count,
      {"--steps", "--step-pattern", "--samples", "--threshold", "--gpu", "--peaks", "--model-config",
       "--tokens-per-step", "--samples-per-step", "--price-kwh", "--gco2-kwh", "--format", "--html-steps", "--html-ranks"});
  if (!given) return given.error();
  if (Status good = check_choices(*given); !good) return good.error();
  AnalyzeOptions read;
  read.paths = std::move(paths);
  for (const std::string& samples : (*given)["--samples"]) read.paths.push_back(samples);
  if (const auto& formats = (*given)["--format"]; !formats.empty()) read.page = formats.back() == "html";
  if (Status set = set_options(read, kReadingOptions, *given); !set) return set.error();
  Progress progress;
  return make_report(read, progress);
}

Result<std::string> written(const profgpu_report* report, const std::string& format, const profgpu_option* options,
                            size_t count) {
  if (report == nullptr) return missing("report");
  const Presenter* presenter = find_presenter(format);
  if (presenter == nullptr) return Error{"there is no format \"" + format + "\"", "json, terminal, markdown, html, sarif, github"};
  const auto given = given_options(options, count, {std::begin(kShowingOptions), std::end(kShowingOptions)});
  if (!given) return given.error();
  if (Status good = check_choices(*given); !good) return good.error();
  PresentOptions shown;
  if (Status set = set_options(shown, kShowingOptions, *given); !set) return set.error();
  if (shown.width == 0) shown.width = PresentOptions().width;
  return presenter->write(report->report, shown);
}

}  // namespace
}  // namespace profgpu

using namespace profgpu;

extern "C" {

profgpu_report* profgpu_analyze(const profgpu_string* paths, size_t path_count, const profgpu_option* options,
                                size_t option_count, profgpu_error** error) {
  auto report = analyzed(texts(paths, path_count), options, option_count);
  if (report) return new profgpu_report{*std::move(report)};
  give(error, report.error());
  return nullptr;
}

profgpu_text* profgpu_report_write(const profgpu_report* report, profgpu_string format, const profgpu_option* options,
                                   size_t option_count, profgpu_error** error) {
  auto text = written(report, std::string(view(format)), options, option_count);
  if (text) return new profgpu_text{*std::move(text)};
  give(error, text.error());
  return nullptr;
}

size_t profgpu_report_findings(const profgpu_report* report) {
  return report != nullptr ? report->report.findings.size() : 0;
}

int profgpu_report_finding(const profgpu_report* report, size_t index, profgpu_finding* finding) {
  if (finding == nullptr || index >= profgpu_report_findings(report)) return 0;
  const Finding& f = report->report.findings[index];
  profgpu_finding out{};
  out.rule = borrowed(f.rule);
  out.what = borrowed(f.what);
  out.why = borrowed(f.why);
  out.severity = static_cast<int32_t>(f.severity);
  out.has_cost = f.cost_ns ? 1 : 0;
  out.cost_ns = f.cost_ns.value_or(0);
  out.cost_pct = f.cost_pct.value_or(0);
  write_struct(finding, out);
  return 1;
}

void profgpu_report_free(profgpu_report* report) { delete report; }
}
