// The summary of a run, for a person.
#include <fmt/format.h>
#include <string.h>

#include <algorithm>

#include "analyse/report/quantity.h"
#include "analyse/report/text.h"
#include "app/words.h"
#include "cli/run_report.h"
#include "view/device_lines.h"
#include "view/terminal.h"

namespace profgpu {
namespace {

constexpr double kMiB = 1 << 20;
constexpr int kNarrowestCommand = 12, kWidestCommand = 60, kWidestStranger = 40;
constexpr size_t kMaxStrangers = 4, kMaxProblems = 8;

std::vector<std::string> words_of(const Value& list) {
  std::vector<std::string> out;
  if (const List* l = list.list())
    for (const Value& v : *l)
      if (const std::string* s = v.text()) out.push_back(*s);
  return out;
}

std::vector<Record> records_of(const Value& list) {
  std::vector<Record> out;
  if (const List* l = list.list())
    for (const Value& v : *l)
      if (const Record* r = v.record()) out.push_back(*r);
  return out;
}

bool is_true(const Value& v) { return v.boolean() && *v.boolean(); }

std::string how_it_ended(const Record& d) {
  if (const int64_t* signal = d.at("signal").integer()) {
    const char* name = ::sigabbrev_np(static_cast<int>(*signal));
    return name ? fmt::format("ended by SIG{}", name) : fmt::format("ended by signal {}", *signal);
  }
  return fmt::format("exit {}{}", *d.at("exit_code").integer(), is_true(d.at("interrupted")) ? ", interrupted" : "");
}

// "python train.py, 62.4 s, exit 0"
std::string about(const Record& d, int width) {
  const size_t runs = records_of(d.at("runs")).size();
  const int64_t repeats = *d.at("repeats").integer();
  std::string what = format_duration(d.at("wall_ns").number());
  if (repeats > 1 && runs > 0)
    what = runs == static_cast<size_t>(repeats) ? fmt::format("{} runs", runs)
                                                : fmt::format("{} of {} runs", runs, repeats);
  const std::string rest = fmt::format(", {}, {}", what, how_it_ended(d));
  const int room = std::clamp(width - display_width(rest), kNarrowestCommand, kWidestCommand);
  return truncated(sanitised(shell_line(words_of(d.at("command")))), room) + rest;
}

Line statistic_line(const std::string& label, const Record& s, std::string (*show)(double)) {
  Line line = Line().skip(2).add(label, Style::kFaint).to_column(22);
  line.add(show(s.at("mean").number())).add(" ± " + show(s.at("std").number()));
  return line.add(fmt::format("  ({} to {})", show(s.at("min").number()), show(s.at("max").number())), Style::kFaint);
}

Lines statistics_lines(const Record& d, const std::vector<DeviceTelemetry>& whole) {
  const Record* s = d.at("statistics").record();
  if (!s || records_of(d.at("runs")).size() < 2) return {};
  Lines lines{Line("Over the runs", Style::kStrong).add("  mean ± standard deviation (range)", Style::kFaint)};
  lines.push_back(
      statistic_line("duration", *s->at("duration").record(), [](double x) { return format_duration(x * 1e9); }));
  const std::vector<Record> devices = records_of(s->at("devices"));
  for (size_t i = 0; i < devices.size(); ++i) {
    const Record& device = devices[i];
    if (!whole[i].used()) continue;
    struct Row {
      const char* field;
      const char* label;
      std::string (*show)(double);
    };
    static constexpr Row kRows[] = {{"util_gpu", "busy", [](double x) { return format_percent(x); }},
                                    {"power", "power", format_watts},
                                    {"energy", "energy", format_energy},
                                    {"peak_memory", "memory peak", [](double x) { return format_bytes(x * kMiB); }},
                                    {"peak_temp", "hottest", [](double x) { return format_number(x) + " °C"; }}};
    for (const Row& row : kRows)
      if (const Record* r = device.at(row.field).record(); r && !r->at("mean").is_null())
        lines.push_back(statistic_line("GPU " + *device.at("label").text() + " " + row.label, *r, row.show));
  }
  return lines;
}

// Processes on the devices that somebody else started: figures of the devices are theirs too.
Lines stranger_lines(const Record& d, int width) {
  const Table* table = d.at("processes").table();
  std::string list;
  size_t count = 0;
  for (size_t i = 0; table && i < table->rows.size(); ++i) {
    const bool* ours = table->at(i, "of_command").boolean();
    if (!ours || *ours || ++count > kMaxStrangers) continue;
    const std::string* name = table->at(i, "name").text();
    list += fmt::format("{}{} on GPU {}{}", list.empty() ? "" : ", ", *table->at(i, "pid").integer(),
                        *table->at(i, "device").text(),
                        name ? " (" + truncated(sanitised(*name), kWidestStranger) + ")" : "");
  }
  if (count == 0) return {};
  if (count > kMaxStrangers) list += fmt::format(" and {} more", count - kMaxStrangers);
  return wrapped_after(Line("! ", Style::kWarn), "others use the devices too: " + list, width);
}

// What ended early or is left behind.
Lines event_lines(const Record& d, int width) {
  Lines lines;
  const auto say = [&](const std::string& text) {
    append(lines, wrapped_after(Line("! ", Style::kWarn), text, width));
  };
  const bool failed = d.at("exit_code").number() != 0 || is_true(d.at("interrupted"));
  const size_t runs = records_of(d.at("runs")).size();
  if (const int64_t* run = d.at("failed_warmup_run").integer())
    say(fmt::format("warm-up run {} failed; nothing was measured", *run));
  else if (failed && *d.at("repeats").integer() > 1)
    say(fmt::format("run {} of {} was the last: {}", runs, *d.at("repeats").integer(), how_it_ended(d)));
  if (const int64_t* signal = d.at("signal").integer(); signal && *signal == SIGKILL)
    say("somebody killed the command; often that is the kernel when memory runs out (`dmesg` would say so), or a "
        "scheduler at its limit");
  if (const double left = d.at("processes_left").number(); left > 0)
    say(left == 1 ? "a process that the command started still runs; it is no longer watched"
                  : fmt::format("{} processes that the command started still run; they are no longer watched", left));
  append(lines, stranger_lines(d, width));
  for (const std::string& note : words_of(d.at("notes")))
    append(lines, wrapped_after(Line("· ", Style::kFaint), note, width, Style::kFaint));
  return lines;
}

// What was recorded, and what could not be.
Lines recording_lines(const Record& d, int width) {
  const Record* r = d.at("recording").record();
  if (!r) return {};
  std::string what;
  const auto add = [&](int64_t n, std::string_view one, std::string_view many) {
    if (n > 0) what += fmt::format("{}{} {}", what.empty() ? "" : ", ", format_count(n), n == 1 ? one : many);
  };
  const Table* processes = r->at("processes").table();
  add(processes ? static_cast<int64_t>(processes->rows.size()) : 0, "process", "processes");
  add(*r->at("kernels").integer(), "kernel", "kernels");
  add(*r->at("copies").integer(), "copy", "copies");
  add(*r->at("collectives").integer(), "collective", "collectives");
  add(*r->at("ranges").integer(), "range", "ranges");
  add(*r->at("steps").integer(), "step", "steps");
  if (const double bytes = r->at("bytes").number(); bytes > 0) what += ", " + format_bytes(bytes);
  Lines lines;
  append(lines, wrapped_after(Line("Recorded ", Style::kStrong), what.empty() ? "nothing" : what, width));
  const std::vector<std::string> problems = words_of(r->at("problems"));
  for (size_t i = 0; i < problems.size() && i < kMaxProblems; ++i)
    append(lines, wrapped_after(Line("! ", Style::kWarn), sanitised(problems[i]), width));
  if (problems.size() > kMaxProblems)
    lines.push_back(Line("! ", Style::kWarn)
                        .add(fmt::format("and {} more: see {}", problems.size() - kMaxProblems,
                                         sanitised(*r->at("session").text()))));
  return lines;
}

Lines sampler_lines(const Record& d, int width) {
  const Record* s = d.at("sampler").record();
  if (!s) return {};
  std::string text =
      fmt::format("{} readings, one each {}, cost {} of processor time", format_count(*s->at("ticks").integer()),
                  format_duration(s->at("interval_ns").number()), format_duration(s->at("cpu_ns").number(), 2));
  if (const double late = s->at("late_ticks").number(); late > 0) text += fmt::format("; {} came late", late);
  if (const double missed = s->at("missed_ticks").number(); missed > 0) text += fmt::format("; {} were missed", missed);
  return wrapped_after(Line("· ", Style::kFaint), text, width, Style::kFaint);
}

}  // namespace

std::string run_text(const RunReport& report, int width, bool colour) {
  const Record& d = report.document;
  Lines lines = device_lines(report.devices, about(d, width), width);
  append(lines, statistics_lines(d, report.devices));
  if (!report.findings.empty()) {
    Report shown;
    shown.findings = report.findings;
    PresentOptions options;
    options.width = width;
    append(lines, finding_lines(shown, options, false));
  }
  append(lines, event_lines(d, width));
  append(lines, sampler_lines(d, width));
  append(lines, recording_lines(d, width));
  append(lines, next_lines(words_of(d.at("next")), width));
  return rendered(lines, width, colour);
}

}  // namespace profgpu
