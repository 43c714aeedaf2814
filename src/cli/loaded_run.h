// What the paths that a user names hold: every rank's trace, and the facts of each, ready to be asked.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analyse/facts.h"
#include "job/job.h"
#include "base/progress.h"
#include "base/result.h"
#include "import/inputs.h"

namespace profgpu {

struct LoadedRun {
  Inputs inputs;
  std::vector<std::unique_ptr<Facts>> facts;   ///< one a rank, in the order of inputs.ranks; none: samples alone
  std::vector<RankFacts> ranks;                ///< the same, with their numbers
  std::vector<RankDigest> digests;             ///< the same, where there are several
  std::unique_ptr<Job> job;                    ///< null for one rank
  SampleLog samples;                           ///< of the ranks' hosts, on the first one's clock; samples alone: all

  [[nodiscard]] bool only_samples() const { return facts.empty(); }
};

/// Reads traces, folders, recordings and samples. The error names the file; it is one too if `steps` leaves a rank none.
Result<LoadedRun> load_run(const std::vector<std::string>& paths, const AnalysisOptions& steps, Progress& progress);

}  // namespace profgpu
