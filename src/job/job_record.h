// The job as a report has it: the `cluster` of the JSON document.
#pragma once

#include "job/job.h"
#include "report/report.h"

namespace profgpu {

Value cluster_value(const Job& job);

// What the job's ranks do together, as a report has it: collectives, pairs, what is missing.

/// Adds collectives, pairs, missing and notes to the `cluster`.
void add_communication(const Job& job, Record& cluster);

}  // namespace profgpu
