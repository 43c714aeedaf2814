// A report on a terminal: one screen with where the time goes, why, and what to do; or one section in full.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analyse/job/report.h"
#include "view/layout.h"

namespace profgpu {

/// What was read, and what is wrong or missing in it.
Lines input_lines(const Report& report, const PresentOptions& options);
/// The ranks of a job side by side.
Lines rank_lines(const Report& report, const PresentOptions& options);
/// Bars: where a step's time goes, and what the devices do.
/// What the job's own logs say.
Lines log_lines(const Report& report, const PresentOptions& options);
Lines time_lines(const Report& report, const PresentOptions& options);
/// How far a step is from what the device could do.
Lines distance_lines(const Report& report, const PresentOptions& options);
/// What costs time and what to change; `whole` adds reasons, figures and all evidence.
Lines finding_lines(const Report& report, const PresentOptions& options, bool whole);
/// The first `most`: what and its cost, and for the first or all of them the change.
Lines brief_finding_lines(const Report& report, const PresentOptions& options, size_t most, bool all_fixes);
/// One paragraph of marks.
Lines checklist_lines(const Report& report, const PresentOptions& options);
/// Kernels and ops that take the most time.
Lines top_lines(const Report& report, const PresentOptions& options);

/// `title`: of the column of names.
Table top_kernels(const RankReport& rank, std::string title);
Table top_ops(const RankReport& rank, std::string title);

/// "… and 123 more: --section kernels"
Line more_line(size_t count, std::string_view where);

/// options.width, or the default width if lines may have any length.
int layout_width(const PresentOptions& options);
/// Rows of one of several tables on a first screen; 0: all.
int first_screen_rows(const PresentOptions& options);
/// `rows`, but at most `top` unless that is 0.
size_t shown_rows(size_t rows, int top);

/// Values of --section.
constexpr std::string_view kReportSections[] = {
    "brief",   "findings", "checklist", "devices", "use",      "steps",       "phases", "serving",  "idle",
    "kernels", "ops",      "work",      "limits",  "roofline", "counters",    "distance", "model",  "energy",
    "launch",  "collectives", "mpi", "memory", "snapshot", "threads", "cluster", "log", "hang"};
/// Those of them that have something to show of this report.
std::vector<std::string> section_names(const Report& report);
/// Whether anything was looked for: it may be that nothing was found.
bool has_section(const Report& report, std::string_view name);

/// The section that options.section names, for every rank that has it; a line with the others if none has.
Lines section_lines(const Report& report, const PresentOptions& options);

}  // namespace profgpu
