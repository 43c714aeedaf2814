// Makeup of the measured steps, for comparing runs: sums over those steps, and their variation from step to step.
#pragma once

#include "analyse/rank/idle.h"
#include "analyse/rank/kernels.h"
#include "analyse/rank/phases.h"

namespace profgpu {

struct Varying {
  int64_t total_ns = 0;       ///< over the measured steps
  double step_stddev_ns = 0;  ///< sample standard deviation of a step's sum; 0 for one step

  void fields(auto&& v) const { v("total_ns", total_ns), v("step_stddev_ns", whole_ns(step_stddev_ns)); }
};

/// State of the rank's busiest device during a phase: "compute"; "communication" and "memory" where nothing earlier in
/// this list runs; "idle: host_bound" ...; "outside": before the device's first activity or after its last.
struct Makeup {
  std::string phase, state;
  int64_t total_ns = 0;

  void fields(auto&& v) const { v("phase", phase), v("state", state), v("total_ns", total_ns); }
};

/// One phase, or one of the states above.
struct NamedTime {
  std::string name;
  Varying time;
  /// Of a state: what the device does is not in the trace, or a server has no requests.
  [[nodiscard]] bool is_unknown_work() const;

  void fields(auto&& v) const { v("name", name), time.fields(v); }
};

/// Activities of one name, launched by one op with one set of shapes. Each belongs to the step in which it starts.
struct MeasuredWork {
  std::string name, short_name;
  WorkKind kind = WorkKind::kCompute;
  KernelCategory category = KernelCategory::kOther;
  std::optional<std::string> op;      ///< innermost op or annotation around the launch
  std::optional<std::string> shapes;  ///< of that op
  int64_t count = 0;
  Varying time;
  /// Ranges around that op within a step, inner first, that all its calls have: ops, annotations, modules.
  std::vector<std::string> within = {};

  void fields(auto&& v) const {
    v("name", name), v("short_name", short_name), v("kind", work_kind_name(kind));
    v("category", kernel_category_name(category)), v("op", op), v("shapes", shapes), v("count", count), time.fields(v);
    v("within", within);
  }
};

struct MeasuredOp {
  std::string name;
  int64_t calls = 0, cpu_self_ns = 0;
  double step_stddev_ns = 0;   ///< of cpu_self, as in Varying

  void fields(auto&& v) const {
    v("name", name), v("calls", calls), v("cpu_self_ns", cpu_self_ns), v("step_stddev_ns", whole_ns(step_stddev_ns));
  }
};

struct MeasuredCollective {
  std::string name, dtype;
  std::optional<int64_t> message_bytes;
  int64_t calls = 0, total_ns = 0;

  void fields(auto&& v) const {
    v("name", name), v("dtype", dtype), v("message_bytes", message_bytes), v("calls", calls), v("total_ns", total_ns);
  }
};

/// A function of the program on the steps' thread, with what it calls in libraries.
struct MeasuredFunction {
  std::string name, file;
  int64_t total_ns = 0;

  void fields(auto&& v) const { v("name", name), v("file", file), v("total_ns", total_ns); }
};

struct MeasuredSteps {
  int64_t steps = 0;
  int64_t wall_ns = 0;             ///< elapsed, with the device work that they launched
  std::vector<Makeup> makeup;      ///< adds up to wall_ns exactly
  std::vector<NamedTime> phases;   ///< all phases, in their order
  std::vector<NamedTime> states;   ///< only those that take time
  std::vector<MeasuredWork> work;  ///< longest first, then name, op, shapes
  std::vector<MeasuredOp> ops;
  std::vector<MeasuredCollective> collectives;
  std::vector<MeasuredFunction> functions;   ///< longest first; of a host alone or whose stack was sampled

  void fields(auto&& v) const {
    v("steps", steps), v("wall_ns", wall_ns), v("makeup", makeup), v("phases", phases), v("states", states);
    v("work", work), v("ops", ops), v("collectives", collectives), v("functions", functions);
  }
  /// Without the time in which the device may work or need not: it tells nothing of how fast the steps could be.
  [[nodiscard]] int64_t known_wall_ns() const;
  static MeasuredSteps compute(const Facts& facts);
};

}  // namespace profgpu
