// Whether files that do not say which rank they are can be of one run.
//
// Certain are: another world size, other models of GPUs, logs of programs that have no kind of line in common, and
// times that are at least a minute apart, where there is nothing else that could link the two. Clocks of logs have no
// time zone: files with like names ("node0.log", "node1.log") are apart only if their step numbers are, too, or by more
// than zones can be.
#pragma once

#include <string>

#include "trace/import/input_units.h"

namespace profgpu {

/// Why the two are not ranks of one run, as a clause; empty: they may be.
std::string why_separate_runs(const InputPart& a, const InputPart& b);

}  // namespace profgpu
