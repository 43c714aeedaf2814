// The matrix products of a job, for `profgpu bench matmul --from TRACE`.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "measure/benchmark.h"

namespace profgpu {

/// Of the trace's first rank: those that take the most time, at most `most`. The error names the trace, or says why it
/// has none.
Result<std::vector<WantedProduct>> products_of(const std::string& path, size_t most);

}  // namespace profgpu
