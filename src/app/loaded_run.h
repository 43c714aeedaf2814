// What the paths that a user names hold, for who shows events: ranks whose traces are there, or read again when needed.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyse/job/job.h"
#include "app/export/run.h"
#include "app/gather/read_job.h"
#include "base/progress.h"
#include "base/result.h"

namespace profgpu {

/// Files of no more than this on disk are kept: that spares reading them again for who could do with one rank at a
/// time.
constexpr int64_t kMinBytes = 256 << 20;

struct LoadOptions {
  AnalysisOptions analysis = {};
  std::optional<std::pair<int64_t, int64_t>> shown_steps = {};   ///< first, one past the last; none: all time
  size_t most_kept = 1;          ///< files or recordings: of no more than these the traces are kept
  int64_t most_kept_bytes = INT64_MAX;   ///< nor of more than this on disk
};

struct LoadedRun {
  JobRead read;                  ///< without digests
  AnalysisOptions analysis;
  std::map<int, EnergySection> energy;   ///< by rank; empty: no samples
  int64_t first_step = INT64_MAX, last_step = INT64_MIN;   ///< of all ranks

  [[nodiscard]] bool only_samples() const { return read.outlines.empty(); }
  /// Timings of a rank's collective calls against other ranks'; null: unknown.
  [[nodiscard]] const CallTimings* timings(int rank) const;
  /// The events of a rank. The error: its files are not what they were.
  [[nodiscard]] Result<std::unique_ptr<TraceFacts>> read_again(int rank) const;
  /// The files.
  [[nodiscard]] std::vector<std::string> paths() const;
  /// What they lack, beside the path of each.
  [[nodiscard]] std::vector<std::pair<std::string_view, std::string_view>> issues() const;
};

/// Reads traces, folders, recordings and samples. The error names the file.
Result<LoadedRun> load_run(const std::vector<std::string>& paths, const LoadOptions& options, Progress& progress);

/// As tables and formats see it. `run` must stay where it is as long as this.
RunRows run_rows(const LoadedRun& run);
/// Of these ranks only, each of which has something to show.
RunRows run_rows(const LoadedRun& run, const std::vector<int>& ranks);
}  // namespace profgpu
