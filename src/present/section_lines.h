// One section in full, as --section asks.
#pragma once

#include "present/line.h"
#include "job/report.h"

namespace profgpu {

/// The section that options.section names, for every rank that has it; a line with the valid names if none has.
Lines section_lines(const Report& report, const PresentOptions& options);

}  // namespace profgpu
