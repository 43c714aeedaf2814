// Reads a job's files side by side, and keeps of each rank what a report needs: memory grows with ranks and steps, not
// with events.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/gather/job_report.h"
#include "app/gather/processes.h"
#include "base/progress.h"

namespace profgpu {

struct JobOptions {
  std::vector<std::string> paths;
  AnalysisOptions analysis;
  Thresholds thresholds;
  /// For who shows events instead of a report: results then have the digest alone, and beside them is what this says.
  std::function<RankOutline(const Facts&)> outline = {};
  /// With no more units than this (see InputUnit) traces are kept.
  size_t most_kept = 0;
  int64_t most_kept_bytes = INT64_MAX;   ///< nor with more than this on disk
};

/// With several processes each reads its share, and only process 0 gets the job; elsewhere the result is empty. The
/// error names the file; it is one too if `analysis` leaves a rank no step.
Result<std::optional<JobRead>> read_job(const JobOptions& options, const Processes& processes, Progress& progress);

}  // namespace profgpu
