// A loaded run as the tables and formats that it is exported to see it.
#pragma once

#include "app/export/run.h"
#include "cli/loaded_run.h"

namespace profgpu {

/// `run` must stay where it is as long as this.
RunRows run_rows(const LoadedRun& run);
/// Of these ranks only, each of which has something to show.
RunRows run_rows(const LoadedRun& run, const std::vector<int>& ranks);

/// On standard error: what the input lacks.
void say_issues(const LoadedRun& run);

}  // namespace profgpu
