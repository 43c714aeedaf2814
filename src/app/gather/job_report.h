// What was read of a job, as a report.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "analyse/job/rank_digest.h"
#include "analyse/job/report.h"
#include "analyse/job/work_comparison.h"
#include "app/gather/rank_result.h"
#include "trace/import/input_units.h"

namespace profgpu {

struct JobRead {
  std::vector<InputSource> sources;   ///< in the order of the paths; of a folder, by name
  std::vector<RankResult> ranks;      ///< by rank; none: samples alone
  SampleLog samples;                  ///< of sample files, as they have them
  /// See analyse_ranks(). Null: one rank, or to be worked out.
  std::unique_ptr<const Job> job;
  RankFiles files;                    ///< of the ranks
  std::map<int, RankOutline> outlines;                  ///< by rank, where JobOptions has them made
  std::map<int, std::unique_ptr<TraceFacts>> traces;    ///< by rank, where JobOptions has them kept
};

/// Works out `read.job` of several ranks' digests.
void analyse_ranks(JobRead& read);

/// Those of the ranks' hosts, on the first rank's clock where `read.job` has been worked out; of samples alone all.
JobSamples samples_of_ranks(const JobRead& read);

/// Everything but what is worth doing next.
Report job_report(JobRead read, const Thresholds& thresholds);

}  // namespace profgpu
