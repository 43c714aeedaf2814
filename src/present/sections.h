// The names that --section takes for a report.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "job/report.h"

namespace profgpu {

/// findings, checklist, inputs, cluster for several ranks, and the sections of any rank, in the order of the Report.
std::vector<std::string> section_names(const Report& report);
bool has_section(const Report& report, std::string_view name);

}  // namespace profgpu
