#include "cli/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "analyse/rank/telemetry.h"
#include "analyse/report/document.h"
#include "analyse/report/quantity.h"
#include "analyse/rules/rule.h"
#include "app/words.h"

namespace profgpu {
namespace {

constexpr size_t kSeedFields = 30;     // of a device's record: what the rows of single runs hold
constexpr size_t kLongestShown = 100;  // of a command to type again
constexpr double kSecondsPerNs = 1e9;

// Mean, standard deviation (n - 1), range and the values themselves; null values are in the list only.
Value statistics_of(const List& values) {
  std::vector<double> known;
  for (const Value& v : values)
    if (!v.is_null()) known.push_back(v.number());
  Record out;
  if (known.empty()) {
    out.add("mean", {}).add("std", {}).add("min", {}).add("max", {});
  } else {
    double mean = 0, square = 0;
    for (const double x : known) mean += x / static_cast<double>(known.size());
    for (const double x : known) square += (x - mean) * (x - mean);
    const auto [min, max] = std::minmax_element(known.begin(), known.end());
    out.add("mean", mean)
        .add("std", known.size() > 1 ? std::sqrt(square / static_cast<double>(known.size() - 1)) : 0.0);
    out.add("min", *min).add("max", *max);
  }
  return out.add("values", values);
}

// One field of the first thirty, over all runs.
Value statistics_of(const std::vector<std::vector<Record>>& runs, size_t device, std::string_view field) {
  List values;
  for (const auto& devices : runs) values.push_back(device < devices.size() ? devices[device].at(field) : Value());
  return statistics_of(values);
}

Value statistics(const RunSession& session, const std::vector<std::vector<Record>>& runs) {
  if (session.runs.empty()) return {};
  List durations, devices;
  for (const OneRun& run : session.runs) durations.emplace_back(static_cast<double>(run.end.wall_ns) / kSecondsPerNs);
  for (size_t d = 0; d < session.devices.size(); ++d) {
    Record one;
    one.add("device", session.devices[d].device.index).add("label", session.devices[d].device.label());
    for (const auto& [name, field] : {std::pair{"util_gpu", "util_gpu_mean"},
                                      {"power", "power_mean_w"},
                                      {"energy", "energy_j"},
                                      {"peak_memory", "mem_used_max_mb"},
                                      {"peak_temp", "temp_max_c"}})
      one.add(name, statistics_of(runs, d, field));
    devices.emplace_back(std::move(one));
  }
  return Record().add("duration", statistics_of(durations)).add("devices", std::move(devices));
}

Value runs_value(const RunSession& session, const std::vector<std::vector<Record>>& records) {
  List out;
  for (size_t i = 0; i < session.runs.size(); ++i) {
    const OneRun& run = session.runs[i];
    Record row;
    row.add("run", i + 1)
        .add("exit_code", run.end.exit_code)
        .add("signal", run.end.signal == 0 ? Value() : Value(run.end.signal));
    row.add("begun_ns", run.begun_ns).add("wall_ns", run.end.wall_ns);
    List devices;
    for (const Record& r : records[i]) devices.emplace_back(r);
    out.emplace_back(std::move(row.add("devices", std::move(devices))));
  }
  return out;
}

Value processes_value(const RunSession& session) {
  Table table{
      {"pid", "visible_pid", "name", "device", "memory_peak_bytes", "utilization_max_pct", "of_command", "unknown"},
      {}};
  for (const DeviceTelemetry& t : session.devices)
    for (const ProcessTelemetry& p : t.processes) {
      auto it = session.processes.find(p.process.pid);
      const WatchedProcess known = it == session.processes.end() ? WatchedProcess() : it->second;
      table.rows.push_back({p.process.pid, known.visible_pid > 0 ? Value(known.visible_pid) : Value(),
                            unless_empty(p.process.name), t.device.label(), p.memory_peak_bytes, p.utilization_max_pct,
                            known.of_command, unless_empty(known.unknown)});
    }
  return table;
}

Value findings_value(const std::vector<Finding>& findings) {
  List out;
  for (const Finding& f : findings) out.push_back(value_of(f));
  return out;
}

Value sampler_value(const SamplerStatistics& s, const RunOptions& options, bool sampled) {
  if (!sampled) return {};
  Record r;
  r.add("interval_ns", options.devices.interval_ns).add("ticks", s.ticks).add("late_ticks", s.late_ticks);
  r.add("missed_ticks", s.missed_ticks).add("calls", s.calls).add("cpu_ns", s.cpu_ns).add("busy_ns", s.busy_ns);
  r.add("jitter_p50_ns", s.jitter_p50_ns).add("jitter_p99_ns", s.jitter_p99_ns).add("jitter_max_ns", s.jitter_max_ns);
  return r.add("first_reading_ns", s.first_reading_ns > 0 ? Value(s.first_reading_ns) : Value());
}

// When a device stopped to answer is part of what is known about it.
void add_troubles(RunSession& session, const OpenDevices& open) {
  for (const DeviceTrouble& t : session.troubles) {
    const int64_t begun = session.runs.empty() ? t.since_ns : session.runs.front().begun_ns;
    const std::string note = fmt::format("{} since {} into the run{}", t.message,
                                         format_duration(static_cast<double>(std::max<int64_t>(t.since_ns - begun, 0))),
                                         t.over ? ", but answered again" : "");
    for (size_t i = 0; i < open.devices.size() && i < session.devices.size(); ++i)
      if (open.devices[i] == t.device) session.devices[i].notes.push_back(note);
  }
}

Value troubles_value(const RunSession& session, const OpenDevices& open) {
  Table table{{"device", "since_ns", "message", "over"}, {}};
  for (const DeviceTrouble& t : session.troubles)
    table.rows.push_back({open.backend->devices()[t.device].label(), t.since_ns, t.message, t.over});
  return table;
}

std::vector<Record> first_thirty(const OneRun& run) {
  std::vector<Record> out;
  for (const DeviceTelemetry& t : run.devices) {
    DeviceTelemetry timed = t;
    timed.wall_ns = run.end.wall_ns;
    Record r = telemetry_record(timed);
    r.fields.resize(kSeedFields);
    out.push_back(std::move(r));
  }
  return out;
}

// Over all runs; and why the backend has no more to say.
void add_run(RunSession& session, const OpenDevices& open) {
  int64_t wall_ns = 0;
  for (const OneRun& run : session.runs) wall_ns += run.end.wall_ns;
  for (size_t i = 0; i < session.devices.size(); ++i) {
    DeviceTelemetry& t = session.devices[i];
    t.wall_ns = wall_ns;
    if (session.stuck) continue;   // a driver that hangs may hang here too
    for (const MetricInfo& m : metrics())
      if (!t.has(m.metric))
        if (std::string why = open.backend->why_absent(open.devices[i], m.metric); !why.empty())
          t.why_absent[m.metric] = std::move(why);
  }
}

Value devices_value(const RunSession& session) {
  List out;
  for (const DeviceTelemetry& t : session.devices) out.emplace_back(telemetry_record(t));
  return out;
}

// Relative where it lies below the current folder.
std::string shown_path(const std::string& path) {
  std::error_code error;
  const std::string here = std::filesystem::current_path(error).string() + "/";
  return path.size() > here.size() && path.starts_with(here) ? path.substr(here.size()) : path;
}

std::vector<std::string> next_commands(const RunOptions& options, const OpenDevices& open,
                                       const RunSession& session, const std::vector<Finding>& findings,
                                       const RunRecording* recording) {
  std::vector<std::string> next;
  if (recording) {
    if (recording->is_empty()) next.emplace_back("profgpu doctor");
    if (!recording->is_empty() || recording->has_threads())
      next.push_back("profgpu analyze " + shell_line({shown_path(recording->folder().path)}));
    return next;
  }
  std::string command = shell_line(options.command);
  if (command.size() > kLongestShown || command.find('\n') != std::string::npos) command = "COMMAND";
  if (!open.backend && options.devices.backend != "none") return {"profgpu doctor"};
  if (!open.backend) return {"profgpu -- " + command};
  if (!findings.empty()) next.push_back("profgpu explain " + findings.front().rule);
  if (session.sample_rows > 0)
    next.push_back("profgpu analyze " +
                   shell_line({options.samples.empty() ? options.folder + "/samples.jsonl" : options.samples}));
  else
    next.push_back("profgpu run --samples run.jsonl -- " + command);
  return next;
}

}  // namespace

RunReport run_report(const RunOptions& options, const OpenDevices& open, RunSession& session,
                     const std::vector<std::string>& notes, const RunRecording* recording) {
  add_troubles(session, open);
  add_run(session, open);
  RunReport report;
  report.devices = session.devices;
  report.findings = telemetry_findings(session.devices);
  std::vector<std::vector<Record>> records;
  for (const OneRun& run : session.runs) records.push_back(first_thirty(run));
  Record& d = report.document;
  d.add("schema", "profgpu.run.v1").add("command", value_of(options.command));
  d.add("exit_code", session.last.exit_code)
      .add("signal", session.last.signal == 0 ? Value() : Value(session.last.signal));
  d.add("interrupted", session.last.interrupted).add("wall_ns", session.last.wall_ns);
  d.add("repeats", options.repeats).add("warmup_runs", options.warmup_runs).add("warmup_ns", options.warmup_ns);
  d.add("failed_warmup_run", session.failed_warmup_run == 0 ? Value() : Value(session.failed_warmup_run));
  d.add("backend", open.backend ? open.backend->name() : "none").add("devices", devices_value(session));
  d.add("runs", runs_value(session, records));
  d.add("statistics", options.repeats > 1 ? statistics(session, records) : Value());
  d.add("processes", processes_value(session)).add("processes_left", session.processes_left);
  d.add("findings", findings_value(report.findings));
  d.add("sampler", sampler_value(session.sampler, options, !session.devices.empty()));
  d.add("troubles", troubles_value(session, open)).add("notes", value_of(notes));
  d.add("recording", recording ? Value(recording->document()) : Value());
  d.add("next", value_of(next_commands(options, open, session, report.findings, recording)));
  if (!options.folder.empty()) report.summary_path = options.folder + "/summary.json";
  if (recording) report.summary_path = recording->folder().summary;
  return report;
}

}  // namespace profgpu
