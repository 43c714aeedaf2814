// From paths to a Report: read, analyse, diagnose.
#pragma once

#include "base/progress.h"
#include "base/result.h"
#include "cli/analyze_options.h"
#include "gather/processes.h"
#include "job/report.h"

namespace profgpu {

/// Reads, analyses and diagnoses. Traces are kept only where a page shows them.
Result<Report> make_report(const AnalyzeOptions& options, Progress& progress);
/// The same by several processes, which share the reading: process 0 gets the report, the others nothing.
Result<std::optional<Report>> make_report(const AnalyzeOptions& options, const Processes& processes,
                                          Progress& progress);

}  // namespace profgpu
