// What the job's ranks do together, as a report has it: collectives, pairs, what is missing.
#pragma once

#include "job/job.h"
#include "report/report.h"

namespace profgpu {

/// Adds collectives, pairs, missing and notes to the `cluster`.
void add_communication(const Job& job, Record& cluster);

}  // namespace profgpu
