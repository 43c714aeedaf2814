// From paths to a Report: read, analyse, diagnose.
#pragma once

#include "analyse/job/report.h"
#include "app/gather/processes.h"
#include "base/progress.h"
#include "base/result.h"
#include "cli/analyze_options.h"

namespace profgpu {

/// Reads, analyses and diagnoses. Traces are kept only where a page shows them.
Result<Report> make_report(const AnalyzeOptions& options, Progress& progress);
/// The same by several processes, which share the reading: process 0 gets the report, the others nothing.
Result<std::optional<Report>> make_report(const AnalyzeOptions& options, const Processes& processes,
                                          Progress& progress);

}  // namespace profgpu
