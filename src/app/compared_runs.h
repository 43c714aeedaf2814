// Runs as they are compared and kept: anything that `analyze` reads, or what it saved.
#pragma once

#include <string>
#include <vector>

#include "app/analyze.h"
#include "app/compare/gate.h"
#include "app/compare/history.h"
#include "app/compare/run_summary.h"
#include "base/progress.h"
#include "base/result.h"

namespace profgpu {

/// A saved analysis as it stands, else one made now; `how` says how (its paths are not used). `document`: what
/// `analyze --json` prints of it, for who keeps it; null: nobody does. Errors name the path.
Result<RunSummary> read_run(const std::string& path, const AnalyzeOptions& how, Progress& progress,
                            std::string* document = nullptr);
/// The baseline of that name in a history; an error names those that there are.
Result<RunSummary> baseline_run(const std::string& file, const std::string& name);

/// Each run beside the first, and the last one's gates.
Result<Diff> diff_of(std::vector<RunSummary> runs, const std::vector<Gate>& gates);

/// A run with all that is known about it here and now: time, host, and the commit that CI names or the work tree is at.
HistoryRun history_run(const std::string& name, const std::string& path, const RunSummary& run);

}  // namespace profgpu
