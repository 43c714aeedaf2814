// A run as a file in another tool's format.
#pragma once

#include <string>
#include <string_view>

#include "app/export/run.h"
#include "base/progress.h"
#include "cli/loaded_run.h"

namespace profgpu {

/// Null: nothing is called so.
const Exporter* find_exporter(std::string_view name);

/// An error where a path is one of the files that the run was read from.
Status refuse_overwrite(const LoadedRun& run, const std::string& path);

/// What is called .gz is compressed, but where the format is written in place. The error names the path.
Status write_exported(const Exporter& exporter, const ExportOptions& options, const RunRows& run,
                      const std::string& path, Progress& progress);

/// On standard error: what was written where, how much, and what opens it. Nothing of standard output.
void say_written(const std::string& path, const Progress& progress, std::string_view reader);

}  // namespace profgpu
