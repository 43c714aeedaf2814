// Lines of two memory snapshots side by side, of which the program's source may have been edited in between.
#pragma once

#include <vector>

#include "app/compare/comparison.h"

namespace profgpu {

/// Largest change first; a line that one side lacks holds nothing there. Lines of a function that moved are one:
/// "forward (work/model.py:18 → 20), activation".
std::vector<NumberChange> memory_line_changes(const RunSummary& before, const RunSummary& after);

}  // namespace profgpu
