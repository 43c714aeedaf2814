// What kinds of inputs there are, by their formats.
#pragma once

#include "analyse/report/report.h"

namespace profgpu {

/// A snapshot or a timeline of memory: it has neither steps nor devices' kernels.
inline bool is_of_memory(const InputFile& file) {
  return file.format == "memory-snapshot" || file.format == "memory-timeline";
}

}  // namespace profgpu
