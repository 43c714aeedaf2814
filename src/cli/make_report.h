// From paths to a Report: read, analyse, diagnose.
#pragma once

#include "base/progress.h"
#include "base/result.h"
#include "cli/analyze_options.h"
#include "report/report.h"

namespace profgpu {

/// Reads what options.paths name and says everything that is known about it. The error names the file.
Result<Report> make_report(const AnalyzeOptions& options, Progress& progress);

}  // namespace profgpu
