// What a run is compared by, taken from the report's document: from that of a report made just now, or of a saved one
// that was read again.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyse/report/report.h"
#include "base/result.h"
#include "base/statistics.h"

namespace profgpu {

/// Time of a step's mean: what a phase, a device's state or some work took, over all ranks.
struct StepMakeup {
  std::string phase;     ///< "forward"
  std::string state;     ///< "compute", "idle: host_bound"
  int64_t total_ns = 0;  ///< over RunSummary::step_count steps
};

/// Activity of one name, launched by one op with one set of shapes.
struct Work {
  std::string name, short_name, kind, category;
  std::string op, shapes;   ///< empty: unknown
  double calls = 0;         ///< a step
  StepSums ns;
  std::vector<std::string> within = {};   ///< ranges around that op, inner first
};

struct OpTime {
  double calls = 0;         ///< a step
  StepSums cpu_self_ns;     ///< no steps: the report does not say how it varies
};

/// Of a collective, or of a function of the program, whose calls are not known.
struct CallTime {
  double calls = 0, total_ns = 0;   ///< a step
};

struct FindingSummary {
  std::string rule, severity, what;
  std::optional<double> cost_ns;   ///< a step
  std::string fix = {};            ///< the first; empty: none
};

/// A line of the program and what it holds at the peak of a memory snapshot.
struct MemoryLineKey {
  std::string device, function, file, category, op;   ///< the first: "device 1: ", where there are several
  int64_t line = 0;
  auto operator<=>(const MemoryLineKey&) const = default;
};

struct RunSummary {
  std::string label;                  ///< what the user called it
  std::vector<std::string> devices;   ///< different names
  int64_t ranks = 0;
  std::vector<int> without_device;   ///< ranks left out: what their devices did is unknown, others' is known
  std::string no_device;              ///< why no rank has activity of a device; empty: some has, or it is no trace
  bool annotated = true;              ///< false: the trace marks no steps, and all of it counts as one
  std::vector<int64_t> steps_ns;      ///< measured steps of the job: means over the ranks that have them
  int64_t step_count = 0;             ///< measured steps of all ranks
  int64_t wall_ns = 0;                ///< of those
  std::vector<StepMakeup> makeup;       ///< adds up to wall_ns
  std::map<std::string, StepSums> phases, states;
  std::vector<Work> work;             ///< of a rank's mean step
  std::map<std::string, OpTime> ops;
  std::map<std::string, CallTime> collectives;         ///< by name and message size
  std::map<std::string, CallTime> functions;          ///< of the program: "load_batch (train.py)"
  std::map<std::string, double> throughput;  ///< samples_per_s ..., as the only training log states it
  std::map<std::string, double> memory;                ///< peak_reserved_bytes ..., the largest rank's
  std::map<MemoryLineKey, double> memory_lines;        ///< bytes at the peak of a memory snapshot
  std::map<std::string, double> telemetry;  ///< power_w, energy_j_per_step, utilization_pct ..., of all devices
  /// Of a mean step, parts of the distance from its limit; empty: that of some rank is not known.
  std::map<std::string, double> distance_ns;
  std::optional<double> times_limit;   ///< likewise: wall time over the limit
  bool times_limit_is_lower_bound = false;   ///< of some rank
  std::vector<FindingSummary> findings;
  std::string without_launch;         ///< how much of the devices' work has no launch; empty: little
  std::string inconclusive;           ///< the verdict, where it says that the evidence is not enough; else empty

  bool only_snapshot = false;  ///< of memory: nothing else is known
  bool held_only = false;  ///< a snapshot has no history: memory_lines are of what it held when it was taken

  [[nodiscard]] double mean_step_ns() const {
    return step_count > 0 ? static_cast<double>(wall_ns) / static_cast<double>(step_count) : 0;
  }
};

/// From a document of schema profgpu.analysis.v1. Errors say what it lacks.
Result<RunSummary> run_summary(const Value& document, std::string label);

}  // namespace profgpu
