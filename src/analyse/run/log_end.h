// How a run ended: of all that its log says then, the likely first cause.
#pragma once

#include "analyse/run/log_report.h"

namespace profgpu {

/// Of the run whose last step is printed before the line `end`.
LogEnd end_before(const RunLog& log, int64_t end);

}  // namespace profgpu
