#include "cli/make_report.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <string_view>

#include "analyse/rank/page.h"
#include "app/gather/read_job.h"
#include "cli/words.h"

namespace profgpu {

namespace {

// Neither the device nor the host was recorded, but what threads did is known.
bool has_only_threads(const Report& report) {
  std::set<std::string_view> missing;
  for (const InputFile& file : report.inputs)
    for (const Issue& issue : file.issues) missing.insert(issue.kind);
  return missing.contains("no_host_events") && missing.contains("no_device_activity");
}

std::vector<std::string> next_commands(const AnalyzeOptions& options, const Report& report) {
  std::vector<std::string> next;
  if (!report.findings.empty()) next.push_back("profgpu explain " + report.findings.front().rule);
  if (report.ranks.empty()) {
    next.push_back("profgpu analyze TRACE --samples " + shell_line({report.inputs.front().path}));
    return next;
  }
  const std::string paths = options.paths.size() == 1 ? " " + shell_line(options.paths) : " …";
  if (report.ranks.size() > 1) next.push_back("profgpu analyze" + paths + " --section cluster");
  next.push_back("profgpu analyze" + paths +
                 (has_only_threads(report) ? " --section threads" : " --section kernels --top 30"));
  if (!options.wants_page()) next.push_back("profgpu analyze" + paths + " --html report.html");
  return next;
}

JobOptions job_options(const AnalyzeOptions& options) {
  return {options.paths, {options.step_pattern, options.first_step, options.end_step}, options.thresholds};
}

// A rank whose trace was kept, or read again.
Result<std::unique_ptr<TraceFacts>> events_of(int rank, JobRead& read, const MetCalls* met,
                                              const AnalysisOptions& analysis) {
  std::unique_ptr<TraceFacts>& kept = read.traces[rank];
  if (!kept) {
    auto trace = read.files.read(rank);
    if (!trace) return trace.error();
    kept = std::make_unique<TraceFacts>(*std::move(trace), analysis);
  }
  if (met) kept->facts.know(*met);
  return std::move(kept);
}

// The page shows events of ranks beside the report. Those that it shows are in memory at once, and no others.
Result<Report> report_with_page(const AnalyzeOptions& options, Progress& progress) {
  JobOptions job = job_options(options);
  job.most_kept = kPageRanks;
  auto got = read_job(job, Processes(), progress);
  if (!got) return got.error();
  JobRead& read = **got;
  analyse_ranks(read);
  std::vector<int> there;
  for (const RankResult& r : read.ranks) there.push_back(r.digest.rank);
  auto shown = page_ranks(there, read.job.get(), options.html_ranks);
  if (!shown) return shown.error();
  PageInput input;
  std::vector<std::unique_ptr<TraceFacts>> events;
  progress.stage = "drawing";
  for (const int rank : *shown) {
    const bool met = read.job && read.job->met_calls.contains(rank);
    auto of_rank = events_of(rank, read, met ? &read.job->met_calls.at(rank) : nullptr, job.analysis);
    if (!of_rank) return of_rank.error();
    events.push_back(*std::move(of_rank));
    input.ranks.push_back({rank, &events.back()->facts});
  }
  read.traces.clear();
  std::set_difference(there.begin(), there.end(), shown->begin(), shown->end(),
                      std::back_inserter(input.without_events));
  if (read.job)
    for (const RankClock& c : read.job->clocks) input.clock_offset_ns[c.rank] = c.offset_ns;
  const SampleLog samples = samples_of_ranks(read).log;
  input.samples = &samples;
  auto page = make_page(input, options.html_steps);
  if (!page) return page.error();
  Report report = job_report(std::move(read), options.thresholds);
  report.page = std::move(*page);
  return report;
}

}  // namespace

Result<std::optional<Report>> make_report(const AnalyzeOptions& options, const Processes& processes,
                                          Progress& progress) {
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

namespace {

std::vector<int> by_interest(const std::vector<int>& there, const Job& job) {
  std::vector<int> order;
  for (const Straggler& s : job.stragglers) order.push_back(s.rank);
  for (const MissingCalls& m : job.missing) order.push_back(m.rank);
  const auto by_mean = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [shortest, longest] = std::minmax_element(job.step_mean_ns.begin(), job.step_mean_ns.end(), by_mean);
  order.push_back(longest->first);
  // A late rank is seen beside one that waits for it: half the places at most are for what is unusual.
  order.resize(std::min(order.size(), kPageRanks / 2));
  order.push_back(shortest->first);
  order.insert(order.end(), there.begin(), there.end());
  return order;
}

}  // namespace

Result<std::vector<int>> page_ranks(const std::vector<int>& there, const Job* job,
                                    const std::optional<RankRanges>& choice) {
  if (choice) return chosen_ranks(*choice, there);
  if (job == nullptr || there.size() <= kPageRanks) return there;
  std::vector<int> chosen;
  for (const int rank : by_interest(there, *job))
    if (chosen.size() < kPageRanks && std::find(chosen.begin(), chosen.end(), rank) == chosen.end())
      chosen.push_back(rank);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace profgpu
