// A report on a terminal: one screen that says where the time goes, why, and what to do; or one section in full.
#include "present/device_lines.h"
#include "present/first_screen.h"
#include "present/section_lines.h"
#include "report/text.h"

namespace profgpu {

int layout_width(const PresentOptions& options) { return options.width > 0 ? options.width : PresentOptions{}.width; }

// Several tables share a screen, so each shows half as many rows as a table of its own, unless somebody asked.
int first_screen_rows(const PresentOptions& options) {
  return options.top == PresentOptions{}.top ? options.top / 2 : options.top;
}

Line more_line(size_t count, std::string_view where) {
  return Line("  … and " + std::to_string(count) + " more: " + std::string(where), Style::kFaint);
}

namespace {

constexpr int kReadableProse = 120;  // longer lines of prose are hard to read on any screen

Lines verdict_lines(const Report& report, const PresentOptions& options) {
  if (report.verdict.empty()) return {};
  return wrapped_after(Line(), report.verdict, std::min(options.width, kReadableProse), Style::kStrong, 5);
}

Lines telemetry_lines(const Report& report, const PresentOptions& options) {
  if (report.telemetry.empty()) return {};
  return device_lines(report.telemetry, report.ranks.empty() ? "" : "samples while the trace was recorded",
                      layout_width(options));
}

Lines first_screen(const Report& report, const PresentOptions& options) {
  std::vector<Lines> parts = {input_lines(report, options), verdict_lines(report, options)};
  // Samples alone have no ranks, phases or kernels.
  if (!report.ranks.empty()) {
    parts.push_back(rank_lines(report, options));
    parts.push_back(time_lines(report, options));
  }
  parts.push_back(telemetry_lines(report, options));
  parts.push_back(finding_lines(report, options, false));
  if (!report.ranks.empty()) {
    parts.push_back(checklist_lines(report, options));
    parts.push_back(top_lines(report, options));
  }
  parts.push_back(next_lines(report.next, layout_width(options)));
  Lines out;
  for (Lines& part : parts) {
    out.emplace_back();
    append(out, std::move(part));
  }
  return out;
}

std::string write_terminal(const Report& report, const PresentOptions& options) {
  const Lines lines = options.section.empty() ? first_screen(report, options) : section_lines(report, options);
  return rendered(lines, options.width, options.colour);
}

}  // namespace

extern const Presenter kTerminalPresenter;
const Presenter kTerminalPresenter{"terminal", "one screen for a person, or one section in full", write_terminal};

}  // namespace profgpu
