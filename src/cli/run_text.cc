// The summary of a run, for a person.
#include <fmt/format.h>
#include <string.h>

#include <algorithm>

#include "analyse/report/quantity.h"
#include "analyse/report/text.h"
#include "app/words.h"
#include "base/secrets.h"
#include "base/text.h"
#include "cli/run_report.h"
#include "view/device_lines.h"
#include "view/terminal.h"
#include "view/wording.h"

namespace profgpu {
namespace {

constexpr double kMiB = 1 << 20;
constexpr int kMinCommandCells = 12, kMaxCommandCells = 60, kMaxNameCells = 40;
constexpr size_t kMaxOthers = 4, kMaxProblems = 8;

std::string how_it_ended(const CommandEnd& end) {
  if (end.signal == 0) return fmt::format("exit {}{}", end.exit_code, end.interrupted ? ", interrupted" : "");
  const char* name = ::sigabbrev_np(end.signal);
  return name ? fmt::format("ended by SIG{}", name) : fmt::format("ended by signal {}", end.signal);
}

// "python train.py, 62.4 s, exit 0"
std::string about(const RunReport& r, int width) {
  const size_t runs = r.session.runs.size(), repeats = static_cast<size_t>(r.options.repeats);
  std::string what = format_duration(static_cast<double>(r.session.last.wall_ns));
  if (repeats > 1 && runs > 0)
    what = runs == repeats ? fmt::format("{} runs", runs) : fmt::format("{} of {} runs", runs, repeats);
  const std::string rest = fmt::format(", {}, {}", what, how_it_ended(r.session.last));
  const int room = std::clamp(width - display_width(rest), kMinCommandCells, kMaxCommandCells);
  return truncated(sanitised(shell_line(masked_words(r.options.command))), room) + rest;
}

Lines statistics_lines(const RunReport& r) {
  if (!r.statistics || r.session.runs.size() < 2) return {};
  Lines lines{Line("Over the runs", Style::kStrong).add("  mean ± standard deviation (range)", Style::kFaint)};
  const auto add = [&](const std::string& label, const Spread& s, std::string (*show)(double)) {
    if (!s.mean) return;
    Line& line = lines.emplace_back(Line().skip(2).add(label, Style::kFaint).to_column(22));
    line.add(show(*s.mean)).add(" ± " + show(*s.std));
    line.add(fmt::format("  ({} to {})", show(*s.min), show(*s.max)), Style::kFaint);
  };
  add("duration", r.statistics->duration, [](double x) { return format_duration(x * 1e9); });
  for (size_t i = 0; i < r.statistics->devices.size(); ++i) {
    const DeviceSpread& device = r.statistics->devices[i];
    if (!r.session.devices[i].used()) continue;
    const std::string gpu = "GPU " + device.label;
    add(gpu + " busy", device.util_gpu, [](double x) { return format_percent(x); });
    add(gpu + " power", device.power, format_watts);
    add(gpu + " energy", device.energy, format_energy);
    add(gpu + " memory peak", device.peak_memory, [](double x) { return format_bytes(x * kMiB); });
    add(gpu + " hottest", device.peak_temp, [](double x) { return format_number(x) + " °C"; });
  }
  return lines;
}

Lines warning(const std::string& text, int width) {
  return wrapped_after(Line("! ", Style::kWarn), text, width);
}

Lines note(const std::string& text, int width) {
  return wrapped_after(Line("· ", Style::kFaint), text, width, Style::kFaint);
}

// Processes on the devices that the command did not start: the devices' figures include theirs.
Lines other_lines(const RunReport& r, int width) {
  std::string list;
  size_t count = 0;
  for (const RunProcess& p : r.processes) {
    if (p.known.of_command.value_or(true) || ++count > kMaxOthers) continue;
    const ProcessSample& process = p.telemetry.process;
    const std::string name = truncated(sanitised(process.name), kMaxNameCells);
    append_listed(list, fmt::format("{} on GPU {}{}", process.pid, p.device, name.empty() ? "" : " (" + name + ")"));
  }
  if (count == 0) return {};
  if (count > kMaxOthers) list += fmt::format(" and {} more", count - kMaxOthers);
  return warning("other processes use these GPUs too: " + list, width);
}

// What ended early or is left behind.
Lines event_lines(const RunReport& r, int width) {
  Lines lines;
  const auto warn = [&](const std::string& text) { append(lines, warning(text, width)); };
  const RunSession& s = r.session;
  const bool failed = s.last.exit_code != 0 || s.last.interrupted;
  if (s.failed_warmup_run != 0)
    warn(fmt::format("warm-up run {} failed; nothing was measured", s.failed_warmup_run));
  else if (failed && r.options.repeats > 1)
    warn(fmt::format("run {} of {} was the last: {}", s.runs.size(), r.options.repeats, how_it_ended(s.last)));
  if (s.last.signal == SIGKILL)
    warn("the command was killed: often by the kernel when memory runs out (check `dmesg`), or by a scheduler that "
         "enforces a limit");
  if (s.processes_left == 1)
    warn("a process that the command started still runs; profgpu no longer watches it");
  else if (s.processes_left > 1)
    warn(fmt::format("{} processes that the command started still run; profgpu no longer watches them",
                     s.processes_left));
  append(lines, other_lines(r, width));
  for (const std::string& text : r.notes) append(lines, note(text, width));
  return lines;
}

Lines sampler_lines(const RunReport& r, int width) {
  if (r.session.devices.empty()) return {};
  const SamplerStatistics& s = r.session.sampler;
  std::string text = fmt::format("{} readings, one every {}, took {} of CPU time", format_count(s.ticks),
                                 format_duration(static_cast<double>(r.options.devices.interval_ns)),
                                 format_duration(static_cast<double>(s.cpu_ns), 2));
  if (s.late_ticks > 0) text += fmt::format("; {} came late", s.late_ticks);
  if (s.missed_ticks > 0) text += fmt::format("; {} were missed", s.missed_ticks);
  return note(text, width);
}

// What was recorded, and what could not be.
Lines recording_lines(const RunReport& r, int width) {
  if (!r.recording) return {};
  std::string what;
  const auto add = [&](int64_t n, std::string_view one, std::string_view many) {
    if (n > 0) append_listed(what, plural(n, one, many));
  };
  const RecordedProcess sum = r.recording->total();
  add(static_cast<int64_t>(r.recording->processes().size()), "process", "processes");
  add(sum.kernels, "kernel", "kernels"), add(sum.copies, "copy", "copies");
  add(sum.collectives, "collective", "collectives"), add(sum.ranges, "range", "ranges"), add(sum.steps, "step", "steps");
  if (sum.bytes > 0) what += ", " + format_bytes(static_cast<double>(sum.bytes));
  if (r.energy_per_step_j) what += fmt::format("; {} a step, start and end included", format_energy(*r.energy_per_step_j));
  Lines lines = wrapped_after(Line("Recorded ", Style::kStrong), what.empty() ? "nothing" : what, width);
  const std::vector<std::string> problems = r.recording->problems();
  for (size_t i = 0; i < problems.size() && i < kMaxProblems; ++i)
    append(lines, warning(sanitised(problems[i]), width));
  if (problems.size() > kMaxProblems)
    append(lines, warning(fmt::format("and {} more: see {}", problems.size() - kMaxProblems,
                                      sanitised(r.recording->folder().session)), width));
  return lines;
}

}  // namespace

std::string run_text(const RunReport& report, int width, bool colour) {
  Lines lines = device_lines(report.session.devices, about(report, width), width);
  append(lines, statistics_lines(report));
  if (!report.findings.empty()) {
    Report shown;
    shown.findings = report.findings;
    PresentOptions options;
    options.width = width;
    append(lines, finding_lines(shown, options, false));
  }
  for (const auto part : {event_lines, sampler_lines, recording_lines}) append(lines, part(report, width));
  append(lines, next_lines(report.next, width));
  return rendered(lines, width, colour);
}

}  // namespace profgpu
