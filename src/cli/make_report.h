// From paths to a Report: read, analyse, diagnose.
#pragma once

#include "base/progress.h"
#include "base/result.h"
#include "cli/analyze_options.h"
#include "cli/loaded_run.h"
#include "report/report.h"

namespace profgpu {

/// Reads what options.paths name. The error names the file.
Result<LoadedRun> load_run(const AnalyzeOptions& options, Progress& progress);

/// Everything that is known about a run.
Report report_of(const LoadedRun& run, const AnalyzeOptions& options);

/// How much an issue of an input matters.
Severity severity_of(TraceIssueKind kind);

/// Both in one.
Result<Report> make_report(const AnalyzeOptions& options, Progress& progress);

}  // namespace profgpu
