// How a run ended: of all that its log says then, the likely first cause.
#pragma once

#include "analyse/run/log_report.h"

namespace profgpu {

/// Of the run whose last step is printed before the line `end`.
LogEnd end_before(const RunLog& log, int64_t end);

/// Of the logs of one run, each of a process: the likely first cause of all that they say, which is then the end of the
/// one log that tells the run's.
void find_end_of_job(std::vector<LogReport>& logs);

}  // namespace profgpu
