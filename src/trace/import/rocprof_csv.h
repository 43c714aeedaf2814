// AMD's CSV files: rocprofv3 writes one for each kind of record of a process, which are read together.
#pragma once

#include <string>

#include "trace/import/importer.h"

namespace profgpu {

extern const Importer kRocprofCsv;

/// The file that stands for all of the process's: the one with kernels, else the first that is there. `path` itself
/// where it has no such name.
std::string rocprof_csv_first(const std::string& path);

}  // namespace profgpu
