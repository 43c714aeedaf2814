#include "app/gather/job_report.h"

#include <algorithm>
#include <map>
#include <utility>

#include "analyse/job/job.h"
#include "analyse/job/job_energy.h"
#include "analyse/job/work_comparison.h"
#include "analyse/rank/clock_scale.h"
#include "analyse/rank/first_use.h"
#include "analyse/rank/launch.h"
#include "analyse/rank/outside_memory.h"
#include "analyse/rank/rank_report.h"
#include "analyse/rank/replay.h"
#include "analyse/report/input_kinds.h"
#include "analyse/run/log_end.h"
#include "app/gather/archive.h"
#include "base/tasks.h"
#include "trace/radix_sort.h"
#include "trace/trace_builder.h"

namespace profgpu {
namespace {

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

}  // namespace

Issue issue_of(const TraceIssue& i) {
  return {std::string(trace_issue_name(i.kind)), i.count, severity_of(i.kind), i.text};
}

void JobNotes::take(const Trace& trace) {
  if (trace.log != nullptr && std::ranges::count(logs, trace.log) == 0) logs.push_back(trace.log);
  if (trace.flight != nullptr) flights.push_back(trace.flight);
}

void JobNotes::take(JobNotes others) {
  for (std::shared_ptr<const RunLog>& log : others.logs)
    if (std::ranges::count(logs, log) == 0) logs.push_back(std::move(log));
  std::ranges::move(others.flights, std::back_inserter(flights));
}

void RankResult::number(int rank) {
  report.rank = digest.rank = diagnosis.measure.rank = rank;
  for (std::optional<Finding>& f : diagnosis.findings)
    if (f) f->ranks = {rank};
}

namespace {

constexpr int kMostThreads = 4;   // more would wait for each other's analyses

template <class... T>
void add_facts(const Facts& facts, Tasks& tasks) {
  (tasks.add([&facts] { facts.get<T>(); }), ...);
}

}  // namespace

// First the large analyses that others need, so that no thread waits long for what another one computes. The digest
// comes first and the replay last: each needs room for a while.
RankResult reduced(int rank, const Facts& facts, const Thresholds& thresholds, int threads) {
  RankResult result;
  Tasks tasks;
  add_facts<Ops>(facts, tasks);
  tasks.add([&] { result.digest = rank_digest(rank, facts); });
  add_facts<DeviceWork, FirstUse, KernelLaunches, RunLimits, Roofline, Launch>(facts, tasks);
  add_facts<MeasuredSteps, Quality, Replay>(facts, tasks);
  add_rank_diagnosis({0, &facts}, thresholds, result.diagnosis, tasks);
  add_rank_report(facts, result.report, tasks);
  tasks.run(std::min(threads, kMostThreads));
  for (const TraceIssue& i : facts.get<Quality>().issues) result.issues.push_back(issue_of(i));
  return result;
}

std::string encoded(const ShareRead& share) {
  archive::Writer to;
  to.put(share.names);
  to.put(share.outcomes.size());
  for (const auto& [unit, o] : share.outcomes) {
    to.put(unit);
    to.put(o.error);
    to.put(o.left_out);
    to.put(o.parts);
    to.put(o.result);
  }
  return std::move(to.bytes);
}

Result<ShareRead> decoded_share(const std::string& bytes) {
  archive::Reader from(bytes);
  ShareRead share;
  size_t n = 0;
  from.get(share.names);
  from.get(n);
  for (size_t i = 0; i < n && !from.failed(); ++i) {
    auto& [unit, o] = share.outcomes.emplace_back();
    from.get(unit);
    from.get(o.error);
    from.get(o.left_out);
    from.get(o.parts);
    from.get(o.result);
  }
  if (from.failed() || !from.at_end())
    return Error{"what another process read cannot be understood", "run the same version of profgpu on all nodes"};
  return share;
}

RankFiles::RankFiles(std::vector<InputUnit> units, std::map<int, std::vector<size_t>> by_rank,
                     const std::vector<InputPart>& parts, const std::vector<size_t>& unit_of)
    : units_(std::move(units)) {
  for (const auto& [rank, of_rank] : by_rank)
    for (const size_t i : of_rank)
      windows_[rank].push_back(
          {unit_of[i], parts[i].index, parts[i].source.path, parts[i].source.events, parts[i].window.extent});
}

Result<Trace> RankFiles::read(int rank) const {
  const std::vector<Window>& windows = windows_.at(rank);
  std::map<size_t, ReadPart> by_index;
  std::vector<Trace> traces;
  for (const Window& w : windows) {
    if (!by_index.contains(w.index)) {
      auto read = read_unit(units_[w.unit], {});
      if (!read) return read.error();
      for (ReadPart& r : read->parts) by_index[r.part.index] = std::move(r);
    }
    const auto at = by_index.find(w.index);
    if (at == by_index.end() || at->second.part.source.events != w.events || at->second.part.window.extent != w.extent)
      return Error{w.path + ": changed while it was read", "retry once the file is complete"};
    traces.push_back(std::move(at->second.trace));
  }
  return joined_windows(std::move(traces));
}

namespace {

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

// NCCL's kernel for whatever has none of its own carries the name and type of the first function in its table. Where
// all calls of such a row were launched as one thing, that is what they are.
void name_rows(const RankDigest& rank, std::vector<CollectiveRow>& rows) {
  std::vector<std::string> names(rows.size());
  std::vector<bool> alike(rows.size(), true);
  for (const CollectiveCall& c : rank.calls.calls) {
    if (c.row >= rows.size() || !alike[c.row]) continue;
    if (rank.kind(c).described) {
      alike[c.row] = false;
      continue;
    }
    std::string name = rank.call_name(c);
    alike[c.row] = names[c.row].empty() || names[c.row] == name;
    names[c.row] = std::move(name);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!alike[i] || names[i].empty() || names[i] == rows[i].name) continue;
    rows[i].name = names[i];
    rows[i].dtype.clear();
  }
}

// With the figures that need other ranks.
std::vector<CollectiveRow> collectives(const RankDigest& rank, const Job* job) {
  const CallTimings* timings = job != nullptr ? job->timings(rank.rank) : nullptr;
  if (timings == nullptr) return rated(rank.calls, {});
  std::vector<CollectiveRow> rows = rated(rank.calls, *timings);
  name_rows(rank, rows);
  return rows;
}

void add_ranks(std::vector<RankResult> ranks, Evidence& evidence, Report& report) {
  if (ranks.empty()) return;
  const RankDigest& first = ranks.front().digest;
  report.measured_steps = first.measured_steps();
  report.incomplete_steps = std::ranges::count_if(ranks.front().report.steps.steps, &Step::incomplete);
  report.warmup_steps = static_cast<int64_t>(first.steps.size()) - report.measured_steps - report.incomplete_steps;
  for (RankResult& r : ranks) {
    // A snapshot of memory has none of the kernels that these are of.
    const auto is_of = [&](const InputFile& f) { return f.rank == r.digest.rank; };
    auto file = std::ranges::find_if(report.inputs, [&](const InputFile& f) { return is_of(f) && !is_of_memory(f); });
    if (file == report.inputs.end()) file = std::ranges::find_if(report.inputs, is_of);
    if (file != report.inputs.end()) std::move(r.issues.begin(), r.issues.end(), std::back_inserter(file->issues));
    r.report.collectives = collectives(r.digest, evidence.job);
    report.ranks.push_back(std::move(r.report));
    evidence.ranks.push_back(std::move(r.diagnosis));
  }
}

std::string why_none_within(const SampleLog& samples, const Interval& job) {
  const std::string text = "no sample lies within the time of the traces: ";
  if (samples.first_ns <= job.start && samples.last_ns >= job.end)
    return text + "it is shorter than the time between two samples";
  return text + "another run, another host's clock, or a run that was over before the next sample";
}

// Samples beside traces count on the ranks' hosts, while the traces were recorded.
void add_telemetry(const JobRead& read, const JobSamples& samples, Evidence& evidence, Report& report) {
  if (read.ranks.empty()) evidence.telemetry = summarise(read.samples);
  if (read.ranks.empty() || read.samples.empty()) return;
  const std::span<const RankClock> clocks = read.job ? std::span(read.job->clocks) : std::span<const RankClock>();
  Interval job{INT64_MAX, INT64_MIN};
  for (size_t i = 0; i < read.ranks.size(); ++i) {
    const RankDigest& d = read.ranks[i].digest;
    const auto at = [&](int64_t t) { return clocks.empty() || clocks[i].method == "none" ? t : clocks[i].aligned(t); };
    job = {std::min(job.start, at(d.extent.start)), std::max(job.end, at(d.extent.end))};
  }
  evidence.telemetry = summarise(clipped(samples.log, job.start, job.end));
  for (InputFile& file : report.inputs) {
    if (file.format != "samples") continue;
    for (const std::string& host : samples.others)
      file.issues.push_back(
          {"samples_elsewhere", 1, Severity::kWarning, "samples of " + host + " are left out: no rank ran on it"});
    if (evidence.telemetry.empty() && !samples.log.empty())
      file.issues.push_back({"samples_elsewhere", read.samples.ticks, Severity::kWarning,
                             why_none_within(samples.log, job)});
    return;   // the logs are one by now
  }
}

// What samples beside traces add to each rank: its energy, what else is in its device's memory, and its clock.
void add_sampled(const SampleLog& samples, JobRead& read, Report& report) {
  if (read.ranks.empty() || samples.empty()) return;
  std::vector<const RankDigest*> digests;
  for (const RankResult& r : read.ranks) digests.push_back(&r.digest);
  RanksEnergy energy = ranks_energy(digests, read.job.get(), samples, read.rates);
  for (size_t i = 0; i < read.ranks.size(); ++i) read.ranks[i].report.energy = std::move(energy.sections[i]);
  report.energy = std::move(energy.job);
  // On the hosts' own clocks, as the digests' steps are.
  const std::vector<std::optional<uint32_t>> devices = sampled_devices(digests, read.samples);
  for (size_t i = 0; i < read.ranks.size(); ++i) {
    // A snapshot alone does not tell which device it is of.
    const bool only_one = read.ranks.size() == 1 && read.samples.devices.size() == 1;
    const std::optional<uint32_t> device = only_one ? std::optional<uint32_t>(0) : devices[i];
    if (auto& snapshot = read.ranks[i].report.snapshot; snapshot && device) {
      snapshot->outside = outside_memory(read.samples, *device, digests[i]->rank, *snapshot);
      fit_beside_others(*snapshot);
    }
  }
  for (size_t i = 0; i < read.ranks.size(); ++i)
    if (devices[i])
      if (const auto clock = sampled_clock(*digests[i], read.samples, *devices[i]))
        at_clock(read.ranks[i].report, clock->sm_clock_mhz);
}

std::string left_out_text(const OtherRun& o) {
  return "rank " + std::to_string(o.rank) + " is left out, since its file is of another run: " + o.why;
}

// Ranks of other runs are as if they were not there; their files say why.
void leave_out(const std::vector<OtherRun>& others, std::vector<RankDigest>& digests, JobRead& read) {
  std::map<int, std::string> texts;   // said of each once
  for (const OtherRun& o : others) texts[o.rank] = left_out_text(o);
  for (InputSource& source : read.sources) {
    const auto text = texts.find(source.rank);
    if (text == texts.end()) continue;
    source.rank = InputSource::kNoRank;
    if (!text->second.empty()) source.issues.push_back({TraceIssueKind::kOtherRun, 1, std::exchange(text->second, {})});
  }
  auto digest = digests.begin();
  std::erase_if(read.ranks, [&](const RankResult&) { return texts.contains((digest++)->rank); });
  std::erase_if(digests, [&](const RankDigest& d) { return texts.contains(d.rank); });
  for (const OtherRun& o : others) read.outlines.erase(o.rank), read.traces.erase(o.rank);
}

std::vector<std::string> notes_of(const std::vector<OtherRun>& others) {
  constexpr size_t kMaxNamed = 3;
  std::vector<std::string> notes;
  for (size_t i = 0; i < std::min(others.size(), kMaxNamed); ++i) notes.push_back(left_out_text(others[i]));
  if (others.size() > kMaxNamed)
    notes.push_back(std::to_string(others.size() - kMaxNamed) +
                    " more ranks are left out for such reasons: their inputs say why");
  return notes;
}

}  // namespace

void analyse_ranks(JobRead& read) {
  if (read.ranks.size() < 2) return;
  std::vector<RankDigest> digests;   // lent: they are large together
  digests.reserve(read.ranks.size());
  for (RankResult& r : read.ranks) digests.push_back(std::move(r.digest));
  std::vector<OtherRun> others = ranks_of_other_runs(digests);
  leave_out(others, digests, read);
  std::unique_ptr<Job> job;
  if (digests.size() > 1) {
    std::vector<const RankDiagnosis*> diagnoses;
    for (const RankResult& r : read.ranks) diagnoses.push_back(&r.diagnosis);
    job = std::make_unique<Job>(analyse_job(digests, read.samples, own_savings(diagnoses)));
    const std::vector<std::string> notes = notes_of(others);
    job->notes.insert(job->notes.begin(), notes.begin(), notes.end());
    job->other_runs = std::move(others);
  }
  for (size_t i = 0; i < read.ranks.size(); ++i) read.ranks[i].digest = std::move(digests[i]);
  read.job = std::move(job);
}

JobSamples samples_of_ranks(const JobRead& read) {
  if (read.ranks.empty()) return {read.samples, {}};
  std::vector<std::string> hosts;
  for (const RankResult& r : read.ranks) hosts.push_back(r.digest.host);
  return job_samples(read.samples, hosts, read.job ? std::span(read.job->clocks) : std::span<const RankClock>());
}

namespace {

// Of a file that is of one rank alone.
std::optional<int> rank_of_file(const std::string& path, const std::vector<InputSource>& sources) {
  std::optional<int> rank;
  for (const InputSource& s : sources) {
    if (s.path != path) continue;
    if (rank || s.rank < 0) return std::nullopt;
    rank = s.rank;
  }
  return rank;
}

// --peaks, else this machine's if the traces are of its devices.
MeasuredMachine measured_for(JobRead& read) {
  if (!read.peaks.path.empty()) return std::move(read.peaks);
  const bool here = std::ranges::any_of(read.ranks, [](const RankResult& r) {
    return r.report.limits.device && !r.report.limits.device->uuid.empty();
  });
  return here ? std::move(read.machine) : MeasuredMachine();
}

}  // namespace

Report job_report(JobRead read, const Thresholds& thresholds) {
  if (read.job == nullptr) analyse_ranks(read);
  Report report;
  for (const InputSource& source : read.sources) report.inputs.push_back(input_of(source));
  Evidence evidence;
  evidence.thresholds = thresholds;
  evidence.job = read.job.get();
  const JobSamples samples = samples_of_ranks(read);
  add_telemetry(read, samples, evidence, report);
  add_sampled(samples.log, read, report);
  for (const std::shared_ptr<const RunLog>& log : read.notes.logs) evidence.logs.push_back(log_report(log));
  if (!read.notes.flights.empty()) evidence.flight = flight_report(read.notes.flights);
  for (LogReport& log : evidence.logs) log.has_dumps = evidence.flight.has_value();
  for (LogReport& log : evidence.logs) log.rank = rank_of_file(log.path, read.sources);
  find_end_of_job(evidence.logs);
  compare_processes(evidence.logs);
  evidence.machine = measured_for(read);
  const std::map<std::string, int> stated_ranks = std::move(read.stated_ranks);
  add_ranks(std::move(read.ranks), evidence, report);
  Diagnosis said = diagnose(evidence);
  for (InputFile& file : report.inputs)
    if (const auto stated = stated_ranks.find(file.path); stated != stated_ranks.end()) file.rank = stated->second;
  report.job = std::move(read.job);
  report.telemetry = std::move(evidence.telemetry);
  report.logs = std::move(evidence.logs);
  report.flight = std::move(evidence.flight);
  report.findings = std::move(said.findings);
  report.checklist = std::move(said.checklist);
  report.verdict = std::move(said.verdict.text);
  report.verdict_kind = said.verdict.kind;
  report.saving = std::move(said.verdict.saving);
  report.verdict_rule = said.verdict.rule;
  compare_ranks(report);
  return report;
}

}  // namespace profgpu
