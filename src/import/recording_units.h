// Recordings among the files that a user names, as the ranks that they are.
#pragma once

#include <vector>

#include "import/input_units.h"

namespace profgpu {

/// Adds a unit for each rank. Files of one folder belong to one run. The error: a named file cannot be read, or has
/// nothing in it.
Status add_recordings(const std::vector<InputUnit::File>& files, const ImportOptions& options, InputUnits& all);

Result<UnitRead> read_recording(const InputUnit& unit, const ImportOptions& options);

}  // namespace profgpu
