#include "cli/make_report.h"

#include <algorithm>

#include "analyse/analysis.h"
#include "analyse/devices.h"
#include "analyse/page.h"
#include "analyse/quality.h"
#include "analyse/steps.h"
#include "analyse/telemetry_record.h"
#include "diagnose/rule.h"
#include "job/job_record.h"

namespace profgpu {

Severity severity_of(TraceIssueKind kind) {
  switch (kind) {
    case TraceIssueKind::kNoSteps:
    case TraceIssueKind::kNote:
    case TraceIssueKind::kUnknownRows:
    case TraceIssueKind::kInvalidText:
    case TraceIssueKind::kDuplicateCorrelation: return Severity::kInfo;
    default: return Severity::kWarning;
  }
}

namespace {

Issue issue_of(const TraceIssue& i) {
  return {std::string(trace_issue_name(i.kind)), i.count, severity_of(i.kind), i.text};
}

InputFile input_of(const InputSource& source) {
  InputFile file;
  file.path = source.path;
  file.format = source.format;
  file.summary = source.noun;
  file.file_bytes = source.file_bytes;
  file.events = source.events;
  if (source.rank >= 0) file.rank = source.rank;
  for (const TraceIssue& i : source.issues) file.issues.push_back(issue_of(i));
  return file;
}

RankReport rank_of(int rank, const Facts& facts) {
  const Trace& trace = facts.trace();
  RankReport report;
  report.rank = rank;
  report.world_size = trace.distributed.world_size;
  report.host = trace.host_name;
  for (const DeviceTime& d : facts.get<Devices>().devices)
    if (!d.name.empty() && std::find(report.device_names.begin(), report.device_names.end(), d.name) ==
                               report.device_names.end())
      report.device_names.push_back(d.name);
  report.sections = sections(facts);
  return report;
}

void add_ranks(const Evidence& evidence, Report& report) {
  for (const RankFacts& r : evidence.ranks) {
    report.ranks.push_back(rank_of(r.rank, *r.facts));
    const auto file = std::find_if(report.inputs.begin(), report.inputs.end(),
                                   [&](const InputFile& f) { return f.rank == r.rank; });
    if (file == report.inputs.end()) continue;
    for (const TraceIssue& i : r.facts->get<Quality>().issues) file->issues.push_back(issue_of(i));
  }
  const Steps& steps = evidence.ranks.front().facts->get<Steps>();
  report.measured_steps = static_cast<int64_t>(steps.measured().size());
  report.warmup_steps = static_cast<int64_t>(steps.steps.size()) - report.measured_steps;
}

// Unix time at which a rank's windows begin and end.
Interval unix_span(const Trace& trace) {
  if (trace.windows.empty()) return {};
  return {trace.windows.front().start + trace.base_time_ns, trace.windows.back().end + trace.base_time_ns};
}

void show_telemetry(const std::vector<DeviceTelemetry>& telemetry, Report& report) {
  for (const DeviceTelemetry& t : telemetry) report.telemetry.push_back(telemetry_record(t));
}

// Samples beside traces count while the traces were recorded.
void add_telemetry(const Inputs& inputs, Evidence& evidence, Report& report) {
  if (inputs.samples.empty()) return;
  Interval job{INT64_MAX, INT64_MIN};
  for (const RankTrace& r : inputs.ranks) {
    const Interval span = unix_span(r.trace);
    job = {std::min(job.start, span.start), std::max(job.end, span.end)};
  }
  evidence.telemetry = summarise(clipped(inputs.samples, job.start, job.end));
  show_telemetry(evidence.telemetry, report);
  if (!evidence.telemetry.empty()) return;
  for (InputFile& file : report.inputs)
    if (!file.rank)
      file.issues.push_back({"samples_elsewhere", inputs.samples.ticks, Severity::kWarning,
                             "no sample lies within the time of the traces: another run, or another host's clock"});
}

// A report of samples alone.
Report telemetry_report(const Inputs& inputs, Report report) {
  const std::vector<DeviceTelemetry> telemetry = summarise(inputs.ranks.front().trace.samples);
  show_telemetry(telemetry, report);
  report.findings = telemetry_findings(telemetry);
  report.verdict = telemetry_verdict(telemetry, report.findings);
  if (!report.findings.empty()) report.next.push_back("profgpu explain " + report.findings.front().rule);
  report.next.push_back("profgpu analyze TRACE --samples " + inputs.sources.front().path);
  return report;
}

std::vector<std::string> next_commands(const AnalyzeOptions& options, const Report& report) {
  std::vector<std::string> next;
  if (!report.findings.empty()) next.push_back("profgpu explain " + report.findings.front().rule);
  const std::string paths = options.paths.size() == 1 ? " " + options.paths.front() : " …";
  next.push_back("profgpu analyze" + paths + " --section kernels --top 30");
  if (!options.wants_page()) next.push_back("profgpu analyze" + paths + " --html report.html");
  return next;
}

}  // namespace

Report report_of(const LoadedRun& run, const AnalyzeOptions& options) {
  Report report;
  for (const InputSource& source : run.inputs.sources) report.inputs.push_back(input_of(source));
  if (run.only_samples()) return telemetry_report(run.inputs, std::move(report));
  Evidence evidence;
  evidence.thresholds = options.thresholds;
  evidence.ranks = run.ranks;
  evidence.job = run.job.get();
  if (run.job) report.cluster = cluster_value(*run.job);
  add_ranks(evidence, report);
  add_telemetry(run.inputs, evidence, report);
  report.findings = diagnose(evidence);
  report.checklist = checklist(evidence, report.findings);
  report.verdict = verdict(evidence, report.findings);
  report.next = next_commands(options, report);
  return report;
}

Result<LoadedRun> load_run(const AnalyzeOptions& options, Progress& progress) {
  return load_run(options.paths, {options.step_pattern, options.first_step, options.end_step}, progress);
}

Result<Report> make_report(const AnalyzeOptions& options, Progress& progress) {
  auto run = load_run(options, progress);
  if (!run) return run.error();
  Report report = report_of(*run, options);
  if (!options.wants_page()) return report;
  progress.stage = "drawing";
  const SampleLog& samples = run->only_samples() ? run->inputs.ranks.front().trace.samples : run->inputs.samples;
  std::map<int, int64_t> offsets;
  if (run->job)
    for (const RankClock& c : run->job->clocks) offsets[c.rank] = c.offset_ns;
  auto page = make_page({run->ranks, std::move(offsets), &samples}, options.html_steps);
  if (!page) return page.error();
  report.page = std::move(*page);
  return report;
}

}  // namespace profgpu
