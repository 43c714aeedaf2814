#include "app/loaded_run.h"

#include <algorithm>

#include "analyse/job/job_energy.h"
#include "analyse/rank/steps.h"
#include "app/gather/job_report.h"

namespace profgpu {
namespace {

// From the first chosen step's start to the last one's end; nullopt: the rank has none of them.
std::optional<Interval> part_of(const Steps& steps, std::pair<int64_t, int64_t> chosen) {
  std::optional<Interval> part;
  for (const Step& s : steps.steps) {
    if (s.index < chosen.first || s.index >= chosen.second) continue;
    const Interval step = s.interval();
    part = part ? hull(*part, step) : step;
  }
  return part;
}

// Needs the digests, and samples on the first rank's clock.
void add_energy(LoadedRun& run) {
  if (run.read.samples.empty()) return;
  std::vector<const RankDigest*> digests;
  for (const RankResult& r : run.read.ranks) digests.push_back(&r.digest);
  std::vector<EnergySection> sections =
      ranks_energy(digests, run.read.job.get(), run.read.samples, run.analysis.rates).sections;
  for (size_t i = 0; i < sections.size(); ++i) run.energy.emplace(digests[i]->rank, std::move(sections[i]));
}

}  // namespace

const CallTimings* LoadedRun::timings(int rank) const {
  return read.job ? read.job->timings(rank) : nullptr;
}

Result<std::unique_ptr<TraceFacts>> LoadedRun::read_again(int rank) const {
  auto trace = read.files.read(rank);
  if (!trace) return trace.error();
  auto events = std::make_unique<TraceFacts>(*std::move(trace), analysis);
  if (const CallTimings* calls = timings(rank)) events->facts.provide(*calls);
  return events;
}

std::vector<std::string> LoadedRun::paths() const {
  std::vector<std::string> all;
  for (const InputSource& source : read.sources) all.push_back(source.path);
  return all;
}

std::vector<std::pair<std::string_view, std::string_view>> LoadedRun::issues() const {
  std::vector<std::pair<std::string_view, std::string_view>> all;
  for (const InputSource& source : read.sources)
    for (const TraceIssue& issue : source.issues)
      if (issue_of(issue).severity != Severity::kInfo) all.emplace_back(source.path, issue.text);
  return all;
}

Result<LoadedRun> load_run(const std::vector<std::string>& paths, const LoadOptions& options, Progress& progress) {
  JobOptions job{paths, options.analysis, {}, {}, options.most_kept, options.most_kept_bytes};
  job.outline = [&](const Facts& facts) {
    if (!options.shown_steps) return RankOutline::of(facts);
    return RankOutline::of(facts, part_of(facts.get<Steps>(), *options.shown_steps));
  };
  auto read = read_job(job, Processes(), progress);
  if (!read) return read.error();
  LoadedRun run;
  run.read = **std::move(read);
  run.analysis = options.analysis;
  analyse_ranks(run.read);
  for (const RankResult& r : run.read.ranks)
    for (const DigestStep& s : r.digest.steps)
      run.first_step = std::min(run.first_step, s.index), run.last_step = std::max(run.last_step, s.index);
  run.read.samples = samples_of_ranks(run.read).log;
  add_energy(run);
  run.read.ranks.clear();
  for (const auto& [rank, trace] : run.read.traces)
    if (const CallTimings* calls = run.timings(rank)) trace->facts.provide(*calls);
  return run;
}

RunRows run_rows(const LoadedRun& run, const std::vector<int>& ranks) {
  static const CallTimings kNone;
  RunRows rows;
  for (const int rank : ranks) {
    const RankOutline& outline = run.read.outlines.at(rank);
    if (const auto kept = run.read.traces.find(rank); kept != run.read.traces.end()) {
      rows.ranks.emplace_back(rank, kept->second->facts, *outline.part);
      continue;
    }
    const CallTimings* timings = run.timings(rank);
    rows.ranks.emplace_back(rank, outline, timings ? *timings : kNone, [&run, rank] { return run.read_again(rank); });
  }
  rows.job = run.read.job.get();
  if (!run.read.samples.empty()) rows.samples = &run.read.samples, rows.energy = &run.energy;
  return rows;
}

RunRows run_rows(const LoadedRun& run) {
  std::vector<int> ranks;
  for (const auto& [rank, outline] : run.read.outlines) ranks.push_back(rank);
  return run_rows(run, ranks);
}

}  // namespace profgpu
