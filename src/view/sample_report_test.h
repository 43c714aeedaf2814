// Hand-made reports that the presenters' tests share.
#pragma once

#include "analyse/job/report.h"

namespace profgpu {

/// One GPU that waits for its loader.
Report sample_report();
/// The same without device activity.
Report cpu_only_report();
/// Four ranks on two hosts, one of them late, two GPUs in each.
Report cluster_report();
/// With another job, and its ranks compared anew.
Report with_job(Report report, Job job);
/// Every text is an attack on the reader's terminal, page or line width.
Report hostile_report();

}  // namespace profgpu
