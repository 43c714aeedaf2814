// The job as a report has it: the `cluster` of the JSON document.
#pragma once

#include "job/job.h"
#include "report/report.h"

namespace profgpu {

Value cluster_value(const Job& job);

}  // namespace profgpu
