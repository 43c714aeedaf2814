// A loaded run as the tables and formats that it is exported to see it.
#pragma once

#include "cli/loaded_run.h"
#include "export/run.h"

namespace profgpu {

/// `run` must outlive it.
RunRows run_rows(const LoadedRun& run);

/// On standard error: what the input lacks.
void say_issues(const LoadedRun& run);

}  // namespace profgpu
