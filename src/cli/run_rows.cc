#include "cli/run_rows.h"

#include "app/gather/rank_result.h"
#include "cli/output.h"

namespace profgpu {

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

}  // namespace profgpu
