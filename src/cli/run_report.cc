#include "cli/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "analyse/report/quantity.h"
#include "analyse/rules/rule.h"
#include "app/words.h"
#include "base/secrets.h"
#include "base/statistics.h"
#include "view/json_text.h"

namespace profgpu {
namespace {

constexpr size_t kRunFields = 30;      // of a device's record, for each single run
constexpr size_t kMaxCommand = 100;    // of a command to type again
constexpr double kNsPerSecond = 1e9;

// The sample's (n - 1); 0 for fewer than two values.
double deviation_of(const std::vector<double>& values, double mean) {
  double sum = 0;
  for (const double v : values) sum += (v - mean) * (v - mean);
  return values.size() < 2 ? 0 : std::sqrt(sum / static_cast<double>(values.size() - 1));
}

// `figure`: of one run.
Spread spread_of(const std::vector<OneRun>& runs, auto figure) {
  Spread out;
  std::vector<double> known;
  for (const OneRun& run : runs)
    if (const auto& value = out.values.emplace_back(figure(run))) known.push_back(*value);
  if (known.empty()) return out;
  out.mean = mean_of(known);
  out.std = deviation_of(known, *out.mean);
  out.min = *std::min_element(known.begin(), known.end());
  out.max = *std::max_element(known.begin(), known.end());
  return out;
}

RunStatistics statistics_of(const RunSession& session) {
  constexpr double kBytesPerMiB = 1 << 20;
  const std::vector<OneRun>& runs = session.runs;
  RunStatistics out;
  out.duration = spread_of(
      runs, [](const OneRun& run) { return std::optional(static_cast<double>(run.end.wall_ns) / kNsPerSecond); });
  for (size_t d = 0; d < session.devices.size(); ++d) {
    const auto spread = [&](auto figure) {
      return spread_of(runs, [&](const OneRun& run) {
        return d < run.devices.size() ? figure(run.devices[d]) : std::optional<double>();
      });
    };
    using Device = DeviceTelemetry;
    out.devices.push_back(
        {session.devices[d].device.index, session.devices[d].device.label(),
         spread([](const Device& t) { return t.summary(Metric::kUtilization).mean; }),
         spread([](const Device& t) { return t.power().mean; }), spread([](const Device& t) { return t.energy_j; }),
         spread([](const Device& t) {
           const auto bytes = t.summary(Metric::kMemoryUsed).max;
           return bytes ? std::optional(*bytes / kBytesPerMiB) : bytes;
         }),
         spread([](const Device& t) { return t.summary(Metric::kTemperature).max; })});
  }
  return out;
}

std::vector<RunProcess> processes_of(const RunSession& session) {
  std::vector<RunProcess> out;
  for (const DeviceTelemetry& t : session.devices)
    for (const ProcessTelemetry& p : t.processes) {
      const auto known = session.processes.find(p.process.pid);
      out.push_back({p, t.device.label(), known != session.processes.end() ? known->second : WatchedProcess()});
    }
  return out;
}

// Since when a device stopped answering is part of what is known about it.
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

// Over all runs; with the backend's reasons for what is missing.
void complete(RunSession& session, const OpenDevices& open) {
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

// Relative if it lies below the current folder.
std::string shown_path(const std::string& path) {
  std::error_code error;
  const std::string here = std::filesystem::current_path(error).string() + "/";
  return path.size() > here.size() && path.starts_with(here) ? path.substr(here.size()) : path;
}

std::vector<std::string> next_commands(const RunReport& r) {
  if (r.recording) {
    std::vector<std::string> next;
    if (r.recording->failed_early()) return next;
    if (r.recording->is_empty()) next.emplace_back("profgpu doctor");
    if (!r.recording->is_empty() || r.recording->has_threads())
      next.push_back("profgpu analyze " + shell_line({shown_path(r.recording->folder().path)}));
    return next;
  }
  const CommandEnd& end = r.session.last;
  if (!r.open.backend && end.exit_code != 0 && end.signal == 0 && !end.interrupted) return {};   // it says why itself
  std::string command = shell_line(r.options.command);
  const bool secret = masked_words(r.options.command) != r.options.command;
  if (secret || command.size() > kMaxCommand || command.find('\n') != std::string::npos) command = "COMMAND";
  if (!r.open.backend) return {r.options.devices.backend == "none" ? "profgpu -- " + command : "profgpu doctor"};
  std::vector<std::string> next;
  if (!r.findings.empty()) next.push_back("profgpu explain " + r.findings.front().rule);
  const std::string& samples = r.options.samples;
  if (r.session.sample_rows > 0)
    next.push_back("profgpu analyze " + shell_line({samples.empty() ? r.options.folder + "/samples.jsonl" : samples}));
  next.push_back("profgpu run --trace -o rec -- " + command);   // samples show that it is slow, a trace why
  return next;
}

// profgpu.run.v1.

std::optional<int> signal_of(const CommandEnd& end) { return only_if(end.signal != 0, end.signal); }

// Of the devices that were used, over the steps of the process that recorded most of them: ranks run in step.
std::optional<double> energy_per_step_of(const RunReport& r) {
  int64_t steps = 0;
  for (const RecordedProcess& p : r.recording != nullptr ? r.recording->processes() : std::vector<RecordedProcess>())
    steps = std::max(steps, p.steps);
  std::optional<double> energy_j;
  for (const DeviceTelemetry& t : r.session.devices)
    if (t.used() && t.energy_j) energy_j = energy_j.value_or(0) + *t.energy_j;
  return energy_j && steps > 0 ? std::optional(*energy_j / static_cast<double>(steps)) : std::nullopt;
}

List runs_list(const std::vector<OneRun>& runs) {
  List out;
  for (const OneRun& run : runs) {
    List devices;
    for (DeviceTelemetry t : run.devices) {
      t.wall_ns = run.end.wall_ns;
      Record r = telemetry_record(t);
      r.fields.resize(kRunFields);
      devices.emplace_back(std::move(r));
    }
    out.emplace_back(Record()
                         .add("run", out.size() + 1)
                         .add("exit_code", run.end.exit_code)
                         .add("signal", signal_of(run.end))
                         .add("begun_ns", run.begun_ns)
                         .add("wall_ns", run.end.wall_ns)
                         .add("devices", std::move(devices)));
  }
  return out;
}

Table troubles_table(const RunSession& session, const OpenDevices& open) {
  Table table{{"device", "since_ns", "message", "over"}, {}};
  for (const DeviceTrouble& t : session.troubles)
    table.rows.push_back({open.backend->devices()[t.device].label(), t.since_ns, t.message, t.over});
  return table;
}

Record sampler_record(const SamplerStatistics& s, int64_t interval_ns) {
  Record r;
  r.add("interval_ns", interval_ns).add("ticks", s.ticks).add("late_ticks", s.late_ticks);
  r.add("missed_ticks", s.missed_ticks).add("calls", s.calls).add("cpu_ns", s.cpu_ns).add("busy_ns", s.busy_ns);
  r.add("jitter_p50_ns", s.jitter_p50_ns).add("jitter_p99_ns", s.jitter_p99_ns).add("jitter_max_ns", s.jitter_max_ns);
  return r.add("first_reading_ns", only_if(s.first_reading_ns > 0, s.first_reading_ns));
}

}  // namespace

std::string RunReport::summary_path() const {
  if (recording) return recording->folder().summary;
  return options.folder.empty() ? "" : options.folder + "/summary.json";
}

RunReport run_report(const RunOptions& options, const OpenDevices& open, RunSession& session,
                     const RunRecording* recording, std::vector<std::string> notes) {
  add_troubles(session, open);
  complete(session, open);
  RunReport report{options, open, session, recording, std::move(notes)};
  report.findings = telemetry_findings(session.devices);
  if (options.repeats > 1 && !session.runs.empty()) report.statistics = statistics_of(session);
  report.processes = processes_of(session);
  report.energy_per_step_j = energy_per_step_of(report);
  report.next = next_commands(report);
  return report;
}

std::string run_json(const RunReport& r) {
  const RunSession& s = r.session;
  List devices, findings;
  for (const DeviceTelemetry& t : s.devices) devices.emplace_back(telemetry_record(t));
  for (const Finding& f : r.findings) findings.push_back(value_of(f));
  Record d;
  d.add("schema", "profgpu.run.v1").add("command", value_of(masked_words(r.options.command)));
  d.add("exit_code", s.last.exit_code).add("signal", signal_of(s.last));
  d.add("interrupted", s.last.interrupted).add("wall_ns", s.last.wall_ns);
  d.add("repeats", r.options.repeats).add("warmup_runs", r.options.warmup_runs).add("warmup_ns", r.options.warmup_ns);
  d.add("failed_warmup_run", only_if(s.failed_warmup_run != 0, s.failed_warmup_run));
  d.add("backend", r.open.backend ? r.open.backend->name() : "none").add("devices", std::move(devices));
  d.add("runs", runs_list(s.runs)).add("statistics", value_of(r.statistics));
  d.add("energy_per_step_j", r.energy_per_step_j);
  d.add("processes", value_of(r.processes)).add("processes_left", s.processes_left);
  d.add("findings", std::move(findings));
  d.add("sampler", only_if(!s.devices.empty(), sampler_record(s.sampler, r.options.devices.interval_ns)));
  d.add("troubles", troubles_table(s, r.open)).add("notes", value_of(r.notes));
  d.add("recording", r.recording ? Value(r.recording->document()) : Value()).add("next", value_of(r.next));
  JsonText json;
  json.record(d, Layout::kInline);
  return json.take() + "\n";
}

}  // namespace profgpu
