// What the paths that a user names hold, for who shows events: ranks whose traces are there, or read again when needed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "gather/read_job.h"
#include "job/job.h"

namespace profgpu {

struct LoadOptions {
  AnalysisOptions analysis = {};
  std::optional<std::pair<int64_t, int64_t>> shown_steps = {};   ///< first, one past the last; none: all time
  bool all_at_once = false;      ///< every trace is kept; else that of a single unit only
};

struct LoadedRun {
  JobRead read;                  ///< without digests
  AnalysisOptions analysis;
  int64_t first_step = INT64_MAX, last_step = INT64_MIN;   ///< of all ranks

  [[nodiscard]] bool only_samples() const { return read.outlines.empty(); }
  /// What the others tell of a rank's collectives; null: nothing.
  [[nodiscard]] const MetCalls* met(int rank) const;
  /// The events of a rank. The error: its files are not what they were.
  [[nodiscard]] Result<std::unique_ptr<TraceFacts>> read_again(int rank) const;
};

/// Reads traces, folders, recordings and samples. The error names the file.
Result<LoadedRun> load_run(const std::vector<std::string>& paths, const LoadOptions& options, Progress& progress);

}  // namespace profgpu
