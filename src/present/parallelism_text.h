// One way to share the work, with its figures, as a sentence.
#pragma once

#include <string>

#include "report/report.h"

namespace profgpu {

/// Of a row of the report's `parallelism`: "data parallel (DDP): gradients all-reduced in buckets; 5 buckets a step of
/// 24.0 MiB; …"
std::string parallelism_text(const Table& ways, size_t row);

}  // namespace profgpu
