// <profgpu/c.h>: reports.
#include <fmt/ranges.h>

#include "capi/c_values.h"
#include "cli/analyze_options.h"
#include "cli/make_report.h"
#include "view/registry.h"

struct profgpu_report {
  profgpu::Report report;
};

namespace profgpu {

extern const Command kAnalyze;

namespace {

constexpr int kPlainWidth = 100;   // of text that goes to no terminal

PresentOptions present_options(const AnalyzeOptions& options) {
  PresentOptions shown;
  shown.width = options.width > 0 ? options.width : kPlainWidth;
  shown.colour = options.colour == Colour::kAlways;
  shown.top = options.top;
  shown.section = options.section;
  shown.verbose = options.verbose;
  return shown;
}

// As the command's own line is checked.
Status check_choices(const Arguments& arguments) {
  for (const FlagGroup& group : kAnalyze.groups)
    for (const Flag& flag : group.flags)
      for (const std::string& value : arguments.values(flag.name))
        if (!flag.choices.empty() && std::find(flag.choices.begin(), flag.choices.end(), value) == flag.choices.end())
          return Error{fmt::format("{} does not know \"{}\"", flag.name.substr(2), value),
                       fmt::format("one of: {}", fmt::join(flag.choices, ", "))};
  return ok();
}

Result<AnalyzeOptions> read_options(const profgpu_option* options, size_t count,
                                    const std::vector<std::string_view>& known, std::vector<std::string> paths) {
  auto arguments = arguments_of(options, count, known);
  if (!arguments) return arguments.error();
  if (Status good = check_choices(*arguments); !good) return good.error();
  arguments->positional = std::move(paths);
  return analyze_options(*arguments);
}

Result<Report> analyzed(std::vector<std::string> paths, const profgpu_option* options, size_t count) {
  if (paths.empty()) return Error{"a path is needed"};
  auto read = read_options(
      options, count,
      {"--steps", "--step-pattern", "--samples", "--threshold", "--format", "--html-steps", "--html-ranks"},
      std::move(paths));
  if (!read) return read.error();
  Progress progress;
  return make_report(*read, progress);
}

Result<std::string> written(const profgpu_report* report, const std::string& format, const profgpu_option* options,
                            size_t count) {
  if (report == nullptr) return missing("report");
  const Presenter* presenter = find_presenter(format);
  if (presenter == nullptr) return Error{"there is no format \"" + format + "\"", "json, terminal, markdown, html"};
  auto read = read_options(options, count, {"--top", "--section", "--width", "--color", "--verbose"}, {});
  if (!read) return read.error();
  return presenter->write(report->report, present_options(*read));
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
