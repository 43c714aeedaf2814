// Sections about time: devices, steps, phases, idle.
#include <algorithm>

#include "analyse/analysis.h"
#include "analyse/devices.h"
#include "analyse/idle.h"
#include "analyse/phases.h"
#include "analyse/steps.h"

namespace profgpu {
namespace {

constexpr size_t kLongestGaps = 5;

double percent_of_wall(int64_t part, int64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

Value show_devices(const Facts& facts) {
  Table t;
  t.columns = {"id",           "name",      "span_ns",   "busy_ns",           "idle_ns", "compute_ns", "communication_ns",
               "memory_ns",    "exposed_communication_ns", "exposed_memory_ns", "overlap_pct", "utilization_pct"};
  for (const DeviceTime& d : facts.get<Devices>().devices) {
    t.rows.push_back({d.id, d.name.empty() ? Value() : Value(d.name), d.span_ns, d.busy_ns, d.idle_ns, d.compute_ns,
                      d.communication_ns, d.memory_ns, d.exposed_communication_ns, d.exposed_memory_ns,
                      d.communication_ns > 0 ? Value(d.overlap_pct()) : Value(), d.span_ns > 0 ? Value(d.utilization_pct()) : Value()});
  }
  return t;
}

Value show_steps(const Facts& facts) {
  const Steps& steps = facts.get<Steps>();
  Table t;
  t.columns = {"name", "index", "start_ns", "duration_ns", "device", "device_busy_ns", "device_idle_ns", "warmup"};
  const bool device = steps.device >= 0;
  for (const Step& s : steps.steps) {
    t.rows.push_back({s.name, s.index, s.start_ns, s.duration_ns, device ? Value(steps.device) : Value(),
                      device ? Value(s.device_busy_ns) : Value(), device ? Value(s.device_idle_ns) : Value(),
                      s.warmup});
  }
  return t;
}

Value show_phases(const Facts& facts) {
  const Phases& phases = facts.get<Phases>();
  const int64_t wall = facts.get<Steps>().total_wall_ns();
  const bool device = !facts.get<Devices>().devices.empty();
  Table t;
  t.columns = {"name", "wall_ns", "wall_pct", "device_busy_ns"};
  for (int p = 0; p < kPhases; ++p) {
    t.rows.push_back({phase_name(static_cast<Phase>(p)), phases.wall_ns[p], percent_of_wall(phases.wall_ns[p], wall),
                      device ? Value(phases.device_busy_ns[p]) : Value()});
  }
  return t;
}

// The mean step over the measured steps: what the first screen shows.
Value show_average_step(const Facts& facts) {
  const Phases& phases = facts.get<Phases>();
  const Steps& steps = facts.get<Steps>();
  const auto n = static_cast<int64_t>(steps.measured().size());
  if (n == 0) return {};
  const int64_t wall = steps.measured_wall_ns();
  Table t;
  t.columns = {"name", "wall_ns", "wall_pct"};
  for (int p = 0; p < kPhases; ++p)
    t.rows.push_back({phase_name(static_cast<Phase>(p)), phases.measured_wall_ns[p] / n,
                      percent_of_wall(phases.measured_wall_ns[p], wall)});
  Record r;
  r.add("steps", n).add("duration_ns", wall / n).add("phases", t);
  return r;
}

std::string name_of(const Trace& trace, ActivityId a) { return std::string(trace.name(a)); }

Value longest_gaps(const Trace& trace, std::vector<const Gap*> gaps) {
  const size_t n = std::min(gaps.size(), kLongestGaps);
  std::partial_sort(gaps.begin(), gaps.begin() + static_cast<int64_t>(n), gaps.end(), [](const Gap* a, const Gap* b) {
    return a->length() != b->length() ? a->length() > b->length() : a->start_ns < b->start_ns;
  });
  Table t;
  t.columns = {"start_ns", "duration_ns", "after", "before", "host"};
  for (size_t i = 0; i < n; ++i) {
    const Gap& g = *gaps[i];
    t.rows.push_back({g.start_ns, g.length(), name_of(trace, g.before), name_of(trace, g.after),
                      g.host.valid() ? Value(trace.name(g.host)) : Value()});
  }
  return t;
}

Value show_idle(const Facts& facts) {
  const Trace& trace = facts.trace();
  const Devices& devices = facts.get<Devices>();
  const Idle& idle = facts.get<Idle>();
  Table t;
  t.columns = {"device", "cause", "total_ns", "span_pct", "count", "longest"};
  for (size_t d = 0; d < idle.devices.size(); ++d) {
    const DeviceIdle& on = idle.devices[d];
    std::array<int, kIdleCauses> order{};
    for (int c = 0; c < kIdleCauses; ++c) order[c] = c;
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return on.total_ns[a] > on.total_ns[b]; });
    for (const int c : order) {
      if (on.count[c] == 0) continue;
      std::vector<const Gap*> gaps;
      for (const Gap& g : on.gaps)
        if (static_cast<int>(g.cause) == c) gaps.push_back(&g);
      t.rows.push_back({on.device, idle_cause_name(static_cast<IdleCause>(c)), on.total_ns[c],
                        percent_of_wall(on.total_ns[c], devices.devices[d].span_ns), on.count[c],
                        longest_gaps(trace, std::move(gaps))});
    }
  }
  return t;
}

}  // namespace

extern const Analysis kDevicesSection, kStepsSection, kPhasesSection, kAverageStepSection, kIdleSection;
const Analysis kDevicesSection = {"devices", "Devices", "time on each device: busy, idle, by kind of work",
                                  show_devices};
const Analysis kStepsSection = {"steps", "Steps", "every step, with its device time", show_steps};
const Analysis kPhasesSection = {"phases", "Phases", "wall time of all steps by phase of training", show_phases};
const Analysis kAverageStepSection = {"average_step", "Average step", "the mean of the measured steps, by phase",
                                      show_average_step};
const Analysis kIdleSection = {"idle", "Idle time by cause", "every gap on a device has one cause", show_idle};

}  // namespace profgpu
