// Comparisons as the document that `diff --json` prints.
#pragma once

#include <vector>

#include "app/compare/comparison.h"
#include "app/compare/gate.h"

namespace profgpu {

/// Each run after the first beside the first; for two runs the usual case. All runs in the order given.
struct Diff {
  std::vector<RunSummary> runs;          ///< at least two
  std::vector<Comparison> comparisons;   ///< of runs[i + 1] with runs[0]
  std::vector<GateResult> gates;         ///< of the last run with the first
};

/// "faster", "slower", "no_difference".
std::string_view change_name(Change change);
std::string_view gate_verdict_name(GateVerdict verdict);

/// Schema profgpu.diff.v1. With more than two runs a and b are the first and the last, and `runs` has them all.
Record diff_record(const Diff& diff);

}  // namespace profgpu
