// Is one set of steps faster than another, or could it be chance?
//
// Confidence intervals are percentile bootstraps (Efron 1979) of the ratio of means and of medians, 95 %, with the
// resampling seeded so that the same steps give the same answer, and widened for few steps by the ratio of Student's t
// to the normal quantile and by sqrt(n / (n - 1)) (Hesterberg 2015, "What teachers should know about the bootstrap").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/compare/run_summary.h"
#include "base/statistics.h"

namespace profgpu {

struct Ratio {
  double value = 1;            ///< after / before
  std::optional<double> low;   ///< 95 % interval; none with fewer than two steps on a side, or where it tells nothing
  std::optional<double> high;
};

enum class Change : uint8_t { kNone, kFaster, kSlower };

struct StepRatio {
  Ratio mean, median;
  Change change = Change::kNone;        ///< of the mean, where the interval leaves 1 out
  std::optional<double> resolution_pct; ///< a change of the mean smaller than this cannot be told from chance
  /// Steps on each side that would tell the change that was seen, if it is real; none where it was told, or where
  /// it is so small that over kMostSteps would be needed.
  std::optional<int64_t> steps_needed;
};

constexpr int64_t kMaxSteps = 100'000;

/// Durations of the measured steps, at least one on each side, none zero on the side `before`.
StepRatio step_ratio(const std::vector<int64_t>& before_ns, const std::vector<int64_t>& after_ns);

// Two runs side by side: is the difference real, and what is it made of.

/// A part of the mean step. All parts of a waterfall add up to the mean steps to the nanosecond.
struct WaterfallRow {
  std::string phase, state;
  int64_t before_ns = 0, after_ns = 0;
  [[nodiscard]] int64_t delta_ns() const { return after_ns - before_ns; }
};

/// Some quantity of a step in both runs.
struct Difference {
  std::string name;          ///< as in the run before; as in the run after where it is new
  std::string name_after;    ///< where it is another one
  std::string category;      ///< of kernels
  std::string matched_by;    ///< of kernels: "name", "op and shapes", "op" or "range"
  std::string op = {}, shapes = {};   ///< of kernels: whose they are, of all these calls; empty: unknown, or several
  /// Of kernels matched by range: that range, and the names of all kernels in it that the other run does not have,
  /// longest time first.
  std::string within = {};
  std::vector<std::string> names_before = {}, names_after = {};
  std::string change;        ///< same, faster, slower, more_calls, fewer_calls, added, gone
  double calls_before = 0, calls_after = 0;
  double before_ns = 0, after_ns = 0;
  std::optional<bool> real;  ///< told from chance; none where the steps are too few to say
  [[nodiscard]] double delta_ns() const { return after_ns - before_ns; }
};

struct NumberChange {
  std::string name;
  std::optional<double> before, after;
};

struct FindingChange {
  /// new, gone, dearer, cheaper, same; not_seen, not_seen_before: that run alone has no activity of a device to tell.
  std::string rule, change;
  std::string severity, what; ///< of the run after where it has it
  std::optional<double> before_cost_ns, after_cost_ns;   ///< a step
  std::string fix = {};   ///< the first change that the run after asks for; empty: none
  std::string before_what = {};   ///< of the run before, where both have it and say different things
};

struct Comparison {
  std::optional<StepRatio> steps;    ///< none where a run has no steps (samples)
  int64_t before_step_ns = 0, after_step_ns = 0;   ///< means
  /// What checkpoints make of the difference of the means, where all else is alike and chance cannot be told: few steps
  /// save. None otherwise.
  std::optional<int64_t> saves_delta_ns;
  std::vector<WaterfallRow> waterfall;   ///< largest change first
  std::vector<Difference> phases, states;   ///< in the order of the report, and by change
  std::vector<Difference> kernels, categories, ops, collectives;   ///< largest change first
  std::vector<Difference> functions;   ///< of the program, on the steps' thread; likewise
  /// Parts of the distance from the limit, largest change first; empty where that of either run is not known.
  std::vector<Difference> distance;
  std::optional<double> before_times_limit, after_times_limit;
  bool before_times_limit_is_lower_bound = false, after_times_limit_is_lower_bound = false;
  std::vector<NumberChange> throughput, memory, telemetry;
  std::vector<NumberChange> memory_lines;  ///< bytes at the peak by line of the program, largest change first
  bool held_only = false;  ///< snapshots without a history: what they held, in place of the peak
  std::vector<FindingChange> findings;
  std::string without_device;        ///< label of the only run without activity of a device; empty: both or none
  std::string after_inconclusive;    ///< why the run after may lack findings; empty: its verdict is decided
  std::vector<std::string> notes;    ///< what makes the runs hard to compare
};

/// Fails if the runs share nothing to compare.
Result<Comparison> compare(const RunSummary& before, const RunSummary& after);

/// Kernels of two runs: by name; what is left by launching op and shapes, then by op, then by the innermost range that
/// both are in, where a few kernels replace a few others; what is left then is gone or added.
std::vector<Difference> matched_work(const RunSummary& before, const RunSummary& after);

/// Sets `change` and `real` from the rest.
void judge(Difference& d, const StepSums& before, const StepSums& after);

}  // namespace profgpu
