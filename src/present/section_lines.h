// One section in full, as --section asks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "present/line.h"
#include "job/report.h"

namespace profgpu {

/// What --section takes for a report: findings, checklist, inputs, cluster for several ranks, and the sections of a rank, in
/// the order of the document.
std::vector<std::string> section_names(const Report& report);
bool has_section(const Report& report, std::string_view name);

/// The section that options.section names, for every rank that has it; a line with the valid names if none has.
Lines section_lines(const Report& report, const PresentOptions& options);

}  // namespace profgpu
