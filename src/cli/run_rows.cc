#include "cli/run_rows.h"

#include "gather/rank_result.h"
#include "cli/output.h"

namespace profgpu {

RunRows run_rows(const LoadedRun& run) {
  RunRows rows;
  for (const RankFacts& r : run.ranks) rows.ranks.emplace_back(r.rank, *r.facts);
  rows.job = run.job.get();
  if (!run.samples.empty()) rows.samples = &run.samples;
  return rows;
}

void say_issues(const LoadedRun& run) {
  for (const InputSource& source : run.inputs.sources)
    for (const TraceIssue& issue : source.issues)
      if (issue_of(issue).severity != Severity::kInfo) print_issue(source.path, issue.text);
}

}  // namespace profgpu
