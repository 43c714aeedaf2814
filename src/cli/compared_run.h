// A run as `profgpu diff` and `profgpu baseline` take it: anything that `analyze` reads, or what it saved.
#pragma once

#include <string>

#include "app/compare/run_summary.h"
#include "base/progress.h"
#include "cli/analyze_options.h"

namespace profgpu {

/// The document of a run, as JSON: of a saved analysis as it stands, else made now. `how` says how (its paths are not
/// used).
Result<std::string> run_document(const std::string& path, const AnalyzeOptions& how, Progress& progress);

/// A document as what runs are compared by. Errors name `label`.
Result<RunSummary> read_run(const std::string& document, const std::string& label);

}  // namespace profgpu
