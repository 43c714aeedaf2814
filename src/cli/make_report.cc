#include "cli/make_report.h"

#include <map>

#include "analyse/page.h"
#include "gather/read_job.h"

namespace profgpu {
namespace {

std::vector<std::string> next_commands(const AnalyzeOptions& options, const Report& report) {
  std::vector<std::string> next;
  if (!report.findings.empty()) next.push_back("profgpu explain " + report.findings.front().rule);
  if (report.ranks.empty()) {
    next.push_back("profgpu analyze TRACE --samples " + report.inputs.front().path);
    return next;
  }
  const std::string paths = options.paths.size() == 1 ? " " + options.paths.front() : " …";
  if (report.ranks.size() > 1) next.push_back("profgpu analyze" + paths + " --section cluster");
  next.push_back("profgpu analyze" + paths + " --section kernels --top 30");
  if (!options.wants_page()) next.push_back("profgpu analyze" + paths + " --html report.html");
  return next;
}

JobOptions job_options(const AnalyzeOptions& options) {
  return {options.paths, {options.step_pattern, options.first_step, options.end_step}, options.thresholds};
}

// The page shows events, so it needs the traces.
Result<Report> report_with_page(const AnalyzeOptions& options, Progress& progress) {
  auto run = load_run(options, progress);
  if (!run) return run.error();
  JobRead read;
  read.sources = std::move(run->inputs.sources);
  for (size_t i = 0; i < run->ranks.size(); ++i) {
    const RankFacts& r = run->ranks[i];
    RankDigest digest = run->digests.empty() ? rank_digest(r.rank, *r.facts) : std::move(run->digests[i]);
    read.ranks.push_back(reduced(r, std::move(digest), options.thresholds));
  }
  read.samples = run->only_samples() ? run->samples : std::move(run->inputs.samples);
  std::map<int, int64_t> offsets;
  if (run->job)
    for (const RankClock& c : run->job->clocks) offsets[c.rank] = c.offset_ns;
  read.job = std::move(run->job);
  Report report = job_report(std::move(read), options.thresholds);
  progress.stage = "drawing";
  auto page = make_page({run->ranks, std::move(offsets), &run->samples}, options.html_steps);
  if (!page) return page.error();
  report.page = std::move(*page);
  return report;
}

}  // namespace

Result<LoadedRun> load_run(const AnalyzeOptions& options, Progress& progress) {
  return load_run(options.paths, {options.step_pattern, options.first_step, options.end_step}, progress);
}

Result<std::optional<Report>> make_report(const AnalyzeOptions& options, const Processes& processes, Progress& progress) {
  std::optional<Report> report;
  if (options.wants_page()) {
    auto with_page = report_with_page(options, progress);
    if (!with_page) return with_page.error();
    report = *std::move(with_page);
  } else {
    auto read = read_job(job_options(options), processes, progress);
    if (!read) return read.error();
    if (*read) report = job_report(**std::move(read), options.thresholds);
  }
  if (report) report->next = next_commands(options, *report);
  return report;
}

Result<Report> make_report(const AnalyzeOptions& options, Progress& progress) {
  auto report = make_report(options, Processes(), progress);
  if (!report) return report.error();
  return **std::move(report);
}

}  // namespace profgpu
