// Limits that a change must keep: `--fail-on 'step_time > +3%'`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/compare/comparison.h"
#include "base/result.h"

namespace profgpu {

struct Gate {
  std::string text;       ///< as given
  std::string metric;     ///< step_time, peak_memory, phase, kernel, finding ...
  std::string name;       ///< after the colon
  bool above = true;      ///< `>`; false: `<`
  bool limited = true;    ///< false: `finding:RULE` alone
  bool relative = false;  ///< the limit is of the change, in percent
  bool change = false;    ///< the limit is of the change, in the metric's unit
  double limit = 0;       ///< percent, or nanoseconds, bytes, joules, watts
};

enum class GateVerdict : uint8_t { kPass, kFail, kUnknown };

struct GateResult {
  Gate gate;
  GateVerdict verdict = GateVerdict::kUnknown;
  std::string detail;     ///< one clause: what was measured
};

/// METRIC[:NAME] (> or <) LIMIT, or finding:RULE. The error shows what can be written.
Result<Gate> parse_gate(const std::string& text);

/// Fails only if the measured change passes the limit and is real; unknown if the runs do not have the metric.
GateResult check_gate(const Gate& gate, const Comparison& comparison);

// Comparisons as the document that `diff --json` prints.

/// Each run after the first beside the first; for two runs the usual case. All runs in the order given.
struct Diff {
  std::vector<RunSummary> runs;          ///< at least two
  std::vector<Comparison> comparisons;   ///< of runs[i + 1] with runs[0]
  std::vector<GateResult> gates;         ///< of each run after the first with it, gate by gate
};

/// "faster", "slower", "no_difference".
std::string_view change_name(Change change);
std::string_view gate_verdict_name(GateVerdict verdict);

/// Schema profgpu.diff.v1. With more than two runs a and b are the first and the last, and `runs` has them all.
Record diff_record(const Diff& diff);

}  // namespace profgpu
