// From paths to a Report: read, analyse, diagnose.
#pragma once

#include <vector>

#include "analyse/job/job.h"
#include "analyse/job/report.h"
#include "app/gather/processes.h"
#include "base/progress.h"
#include "base/result.h"
#include "cli/analyze_options.h"
#include "cli/flag_values.h"

namespace profgpu {

/// Reads, analyses and diagnoses. Traces are kept only where a page shows them.
Result<Report> make_report(const AnalyzeOptions& options, Progress& progress);
/// The same by several processes, which share the reading: process 0 gets the report, the others nothing.
Result<std::optional<Report>> make_report(const AnalyzeOptions& options, const Processes& processes,
                                          Progress& progress);

// Which ranks of a job a page shows with their events.

/// So many fit a browser and what a person looks through; their traces are in memory at once.
constexpr size_t kPageRanks = 8;

/// Ascending. Without a choice all of a small job; else ranks that others wait for, those that hang, the longest and
/// the shortest steps, and the first ones. The error: a part of the choice names no rank.
Result<std::vector<int>> page_ranks(const std::vector<int>& there, const Job* job,
                                    const std::optional<RankRanges>& choice);

}  // namespace profgpu
