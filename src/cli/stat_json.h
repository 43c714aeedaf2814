// `profgpu stat` for programs.
#pragma once

#include <string>

#include "cli/stat_view.h"

namespace profgpu {

/// profgpu.stat.v1.
std::string stat_json(const StatView& view);
/// The keys and units of `gpustat --json`, so that what reads those reads this.
std::string gpustat_json(const StatView& view);

}  // namespace profgpu
