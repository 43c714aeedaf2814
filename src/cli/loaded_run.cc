#include "cli/loaded_run.h"

#include <chrono>

#include "analyse/steps.h"
#include "gather/read_job.h"
#include "job/job_samples.h"

namespace profgpu {

Result<LoadedRun> load_run(const std::vector<std::string>& paths, const AnalysisOptions& steps, Progress& progress) {
  ImportOptions import;
  import.progress = [&](int64_t done, int64_t total) {
    progress.done_bytes = done;
    progress.total_bytes = total;
  };
  const auto begin = std::chrono::steady_clock::now();
  auto inputs = read_inputs(paths, import);
  if (!inputs) return inputs.error();
  progress.read_ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
  progress.stage = "analysing";

  LoadedRun run;
  run.inputs = std::move(*inputs);
  if (run.inputs.ranks.size() == 1 && run.inputs.ranks.front().trace.only_samples()) {
    run.samples = std::move(run.inputs.ranks.front().trace.samples);
    return run;
  }
  std::vector<std::string> hosts;
  for (const RankTrace& r : run.inputs.ranks) {
    run.facts.push_back(std::make_unique<Facts>(r.trace, steps));
    if (run.facts.back()->get<Steps>().steps.empty())
      return no_steps_left(paths.front(), r.rank);
    run.ranks.push_back({r.rank, run.facts.back().get()});
    hosts.push_back(r.trace.host_name);
  }
  if (run.ranks.size() == 1) {
    run.samples = job_samples(run.inputs.samples, hosts, {}).log;
    return run;
  }
  for (const RankFacts& r : run.ranks) run.digests.push_back(rank_digest(r.rank, *r.facts));
  run.job = std::make_unique<Job>(analyse_job(run.digests, run.inputs.samples));
  run.samples = job_samples(run.inputs.samples, hosts, run.job->clocks).log;
  for (const RankFacts& r : run.ranks) run.facts[&r - run.ranks.data()]->know(std::move(run.job->met_calls[r.rank]));
  run.job->met_calls.clear();   // the facts have them
  return run;
}

}  // namespace profgpu
