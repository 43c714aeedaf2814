// A run as `profgpu diff` and `profgpu baseline` take it: anything that `analyze` reads, or what it saved.
#pragma once

#include <string>

#include "app/compare/history.h"
#include "app/compare/run_summary.h"
#include "base/progress.h"
#include "cli/analyze_options.h"
#include "cli/command.h"

namespace profgpu {

/// What a run is compared by: of a saved analysis, else analysed now. `how` says how (its paths are not used).
/// `document`: gets the run as JSON, a saved analysis as it stands. Errors name the path.
Result<RunSummary> compared_run(const std::string& path, const AnalyzeOptions& how, Progress& progress,
                                std::string* document = nullptr);

/// The same of a document. Errors name `label`.
Result<RunSummary> saved_run(const std::string& document, const std::string& label);

// Which history file a command uses, and what is said of a run in it.

/// --file, else PROFGPU_HISTORY, else profgpu-history.sqlite in the current folder.
std::string history_path(const Arguments& arguments);
Flag history_file_flag();

/// A run with all that is known about it here and now: time, host, and the commit that CI names or the work tree is at.
HistoryRun history_run(const std::string& name, const std::string& path, const RunSummary& run);

/// The commit that GITHUB_SHA, CI_COMMIT_SHA or .git of this or an outer folder names; empty if none.
std::string commit_here();

/// The document of a baseline; an error names those that there are.
Result<std::string> baseline_document(const std::string& file, const std::string& name);

}  // namespace profgpu
