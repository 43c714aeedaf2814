#include "cli/loaded_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "analyse/rank/steps.h"
#include "analyse/report/quantity.h"
#include "app/gather/rank_result.h"
#include "cli/output.h"

namespace profgpu {

namespace {

// From the first chosen step's start to the last one's end; nullopt: the rank has none of them.
std::optional<Interval> part_of(const Steps& steps, std::pair<int64_t, int64_t> chosen) {
  std::optional<Interval> part;
  for (const Step& s : steps.steps) {
    if (s.index < chosen.first || s.index >= chosen.second) continue;
    const Interval step = s.interval();
    part = part ? Interval{std::min(part->start, step.start), std::max(part->end, step.end)} : step;
  }
  return part;
}

}  // namespace

const MetCalls* LoadedRun::met(int rank) const {
  if (!read.job) return nullptr;
  const auto at = read.job->met_calls.find(rank);
  return at != read.job->met_calls.end() ? &at->second : nullptr;
}

Result<std::unique_ptr<TraceFacts>> LoadedRun::read_again(int rank) const {
  auto trace = read.files.read(rank);
  if (!trace) return trace.error();
  auto events = std::make_unique<TraceFacts>(*std::move(trace), analysis);
  if (const MetCalls* calls = met(rank)) events->facts.know(*calls);
  return events;
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
  run.read.ranks.clear();
  for (const auto& [rank, trace] : run.read.traces)
    if (const MetCalls* calls = run.met(rank)) trace->facts.know(*calls);
  return run;
}

RunRows run_rows(const LoadedRun& run, const std::vector<int>& ranks) {
  static const MetCalls kNone;
  RunRows rows;
  for (const int rank : ranks) {
    const RankOutline& outline = run.read.outlines.at(rank);
    if (const auto kept = run.read.traces.find(rank); kept != run.read.traces.end()) {
      rows.ranks.emplace_back(rank, kept->second->facts, *outline.part);
      continue;
    }
    const MetCalls* met = run.met(rank);
    rows.ranks.emplace_back(rank, outline, met ? *met : kNone, [&run, rank] { return run.read_again(rank); });
  }
  rows.job = run.read.job.get();
  if (!run.read.samples.empty()) rows.samples = &run.read.samples;
  return rows;
}

RunRows run_rows(const LoadedRun& run) {
  std::vector<int> ranks;
  for (const auto& [rank, outline] : run.read.outlines) ranks.push_back(rank);
  return run_rows(run, ranks);
}

void say_issues(const LoadedRun& run) {
  for (const InputSource& source : run.read.sources)
    for (const TraceIssue& issue : source.issues)
      if (issue_of(issue).severity != Severity::kInfo) print_issue(source.path, issue.text);
}

const Exporter* find_exporter(std::string_view name) {
  for (const Exporter* e : exporters())
    if (e->name == name) return e;
  return nullptr;
}

Status refuse_overwrite(const LoadedRun& run, const std::string& path) {
  std::vector<std::string> inputs;
  for (const InputSource& s : run.read.sources) inputs.push_back(s.path);
  return refuse_overwrite(inputs, path);
}

Status write_exported(const Exporter& exporter, const ExportOptions& options, const RunRows& run,
                      const std::string& path, Progress& progress) {
  auto file = OutputFile::open(path, &progress.done_bytes);
  if (!file) return file.error();
  if (exporter.write_file != nullptr) {
    const std::string& partial = (*file)->partial();
    if (partial.empty()) return Error{path + " is no regular file, and " + std::string(exporter.name) + " needs one"};
    auto status = exporter.write_file(run, partial, &progress.done_bytes);
    if (!status) return status.error().within(path);
  } else {
    if (path.ends_with(".gz")) (*file)->bytes().compress();
    auto status = exporter.write(run, options, (*file)->bytes());
    if (!status) return status;
  }
  return (*file)->finish();
}

void say_written(const std::string& path, const Progress& progress, std::string_view reader) {
  if (path == "-") return;
  const std::string size = format_bytes(static_cast<double>(progress.done_bytes));
  print_message(fmt::format("profgpu: wrote {}, {}, for {}", path, size, reader));
}

}  // namespace profgpu
