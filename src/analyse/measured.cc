#include "analyse/measured.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <unordered_map>

#include "analyse/analysis.h"
#include "analyse/collectives.h"
#include "analyse/ops.h"
#include "analyse/steps.h"

namespace profgpu {
namespace {

struct StateInterval {
  Interval time;
  int state = StepState::kOutside;
};

// Disjoint, in order of time; what lies between them is outside.
std::vector<StateInterval> device_states(const Facts& facts) {
  std::vector<StateInterval> all;
  const Devices& devices = facts.get<Devices>();
  if (devices.busiest < 0) return all;
  const DeviceTime& d = devices.devices[static_cast<size_t>(devices.busiest)];
  const auto add = [&](const Intervals& time, int state) {
    for (const Interval& i : time) all.push_back({i, state});
  };
  add(d.compute, StepState::kCompute);
  add(d.exposed_communication, StepState::kCommunication);
  add(subtract(d.memory, unite(d.compute, d.communication)), StepState::kMemory);
  for (const Gap& g : facts.get<Idle>().devices[static_cast<size_t>(devices.busiest)].gaps)
    all.push_back({{g.start_ns, g.end_ns}, StepState::kFirstIdle + static_cast<int>(g.cause)});
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.time < b.time; });
  return all;
}

// Sums of a step, one step after the other.
class StepSum {
 public:
  void add(int64_t step, int64_t ns) {
    if (step != step_) close();
    step_ = step;
    now_ += ns;
  }
  /// The deviation over `steps`, those with nothing among them.
  Varying over(int64_t steps) {
    close();
    Varying v{total_, 0};
    if (steps > 1) {
      const double n = static_cast<double>(steps), mean = static_cast<double>(total_) / n;
      v.step_stddev_ns = std::sqrt(std::max(0.0, (squares_ - n * mean * mean) / (n - 1)));
    }
    return v;
  }

 private:
  void close() {
    total_ += now_;
    squares_ += static_cast<double>(now_) * static_cast<double>(now_);
    now_ = 0;
  }
  int64_t step_ = -1, now_ = 0, total_ = 0;
  double squares_ = 0;
};

void add_makeup(const Facts& facts, const std::vector<bool>& counts, MeasuredSteps& m) {
  const std::vector<StateInterval> states = device_states(facts);
  std::array<StepSum, kPhases> phases;
  std::array<StepSum, StepState::kCount> of_state;
  const auto take = [&](const PhaseSegment& s, int state, int64_t ns) {
    if (ns == 0) return;
    m.makeup_ns[static_cast<size_t>(s.phase)][static_cast<size_t>(state)] += ns;
    phases[static_cast<size_t>(s.phase)].add(s.step, ns);
    of_state[static_cast<size_t>(state)].add(s.step, ns);
  };
  size_t at = 0;
  for (const PhaseSegment& s : facts.get<Phases>().segments) {
    if (!counts[s.step]) continue;
    while (at < states.size() && states[at].time.end <= s.start_ns) ++at;
    int64_t outside = s.end_ns - s.start_ns;
    for (size_t i = at; i < states.size() && states[i].time.start < s.end_ns; ++i) {
      const int64_t ns = std::min(states[i].time.end, s.end_ns) - std::max(states[i].time.start, s.start_ns);
      take(s, states[i].state, ns);
      outside -= ns;
    }
    take(s, StepState::kOutside, outside);
  }
  for (size_t p = 0; p < kPhases; ++p) m.phases[p] = phases[p].over(m.steps);
  for (size_t i = 0; i < of_state.size(); ++i) m.states[i] = of_state[i].over(m.steps);
}

struct WorkKey {
  StringId name, op, shapes;
  WorkKind kind = WorkKind::kCompute;
  bool operator==(const WorkKey&) const = default;
};
struct WorkHash {
  size_t operator()(const WorkKey& k) const {
    uint64_t h = k.name.value;
    for (const uint64_t part : {uint64_t{k.op.value}, uint64_t{k.shapes.value}, static_cast<uint64_t>(k.kind)})
      h = (h ^ part) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 32);
  }
};

void add_work(const Facts& facts, MeasuredSteps& m) {
  const Trace& trace = facts.trace();
  const Devices& devices = facts.get<Devices>();
  const Ops& ops = facts.get<Ops>();
  std::unordered_map<WorkKey, size_t, WorkHash> place_of;
  std::vector<StepSum> sums;
  StepFinder step_of(facts.get<Steps>());
  for (uint32_t i = 0; i < trace.activity.size(); ++i) {
    const int64_t step = step_of(trace.activity.start_ns[i]);
    if (step < 0) continue;
    WorkKey key{trace.activity.name[i], {}, {}, devices.kind[i]};
    if (const HostId op = ops.of_activity[i]; op.valid()) {
      key.op = trace.host.name[op.value];
      if (const OpArgsId args = trace.host.args[op.value]; args.valid()) key.shapes = trace.op_args[args.value].shapes;
    }
    const auto [it, fresh] = place_of.try_emplace(key, sums.size());
    if (fresh) {
      sums.emplace_back();
      m.work.push_back({key.name, key.kind, key.op, key.shapes, 0, {}});
    }
    ++m.work[it->second].count;
    sums[it->second].add(step, trace.activity.duration_ns[i]);
  }
  for (size_t i = 0; i < sums.size(); ++i) m.work[i].time = sums[i].over(m.steps);
  std::sort(m.work.begin(), m.work.end(), [&](const MeasuredWork& a, const MeasuredWork& b) {
    if (a.time.total_ns != b.time.total_ns) return a.time.total_ns > b.time.total_ns;
    const auto texts = [&](const MeasuredWork& w) {
      return std::tuple(trace.strings[w.name], trace.strings[w.op], trace.strings[w.shapes], w.kind);
    };
    return texts(a) < texts(b);
  });
}

std::string_view work_name(WorkKind kind) {
  constexpr std::string_view kNames[] = {"compute", "communication", "memory"};
  return kNames[static_cast<size_t>(kind)];
}

int64_t whole(double ns) { return std::llround(ns); }

Table op_table(const Facts& facts) {
  Table t;
  t.columns = {"name", "calls", "cpu_self_ns"};
  for (const OpRow& o : facts.get<Ops>().rows)
    if (o.measured_calls > 0) t.rows.push_back({o.text, o.measured_calls, o.measured_self_ns});
  return t;
}

Table collective_table(const Facts& facts) {
  Table t;
  t.columns = {"name", "dtype", "message_bytes", "calls", "total_ns"};
  for (const CollectiveRow& c : facts.get<Collectives>().rows)
    if (c.measured_calls > 0) t.rows.push_back({c.name, c.dtype, c.message_bytes, c.measured_calls, c.measured_ns});
  return t;
}

Table work_table(const Facts& facts, const MeasuredSteps& m) {
  const Trace& trace = facts.trace();
  const Kernels& kernels = facts.get<Kernels>();
  const auto text = [&](StringId id) { return id.valid() ? Value(trace.strings[id]) : Value(); };
  Table t;
  t.columns = {"name", "short_name", "kind", "category", "op", "shapes", "count", "total_ns", "step_stddev_ns"};
  for (const MeasuredWork& w : m.work) {
    const KernelCategory category =
        w.kind == WorkKind::kMemory ? KernelCategory::kCopy : kernels.category[w.name.value];
    t.rows.push_back({trace.strings[w.name], short_kernel_name(trace.strings[w.name]), work_name(w.kind),
                      kernel_category_name(category), text(w.op), text(w.shapes), w.count, w.time.total_ns,
                      whole(w.time.step_stddev_ns)});
  }
  return t;
}

Value show_measured(const Facts& facts) {
  const MeasuredSteps& m = facts.get<MeasuredSteps>();
  Table makeup, phases, states;
  makeup.columns = {"phase", "state", "total_ns"};
  phases.columns = states.columns = {"name", "total_ns", "step_stddev_ns"};
  for (size_t p = 0; p < kPhases; ++p) {
    const std::string_view phase = phase_name(static_cast<Phase>(p));
    phases.rows.push_back({phase, m.phases[p].total_ns, whole(m.phases[p].step_stddev_ns)});
    for (size_t i = 0; i < m.states.size(); ++i)
      if (m.makeup_ns[p][i] != 0)
        makeup.rows.push_back({phase, device_state_name(static_cast<int>(i)), m.makeup_ns[p][i]});
  }
  for (size_t i = 0; i < m.states.size(); ++i)
    if (m.states[i].total_ns != 0)
      states.rows.push_back(
          {device_state_name(static_cast<int>(i)), m.states[i].total_ns, whole(m.states[i].step_stddev_ns)});
  Record r;
  r.add("steps", m.steps).add("wall_ns", m.wall_ns).add("makeup", makeup);
  r.add("phases", phases).add("states", states).add("work", work_table(facts, m));
  r.add("ops", op_table(facts)).add("collectives", collective_table(facts));
  return r;
}

}  // namespace

std::string device_state_name(int state) {
  constexpr std::string_view kNames[] = {"compute", "communication", "memory", "outside"};
  if (state < StepState::kFirstIdle) return std::string(kNames[state]);
  return "idle: " + std::string(idle_cause_name(static_cast<IdleCause>(state - StepState::kFirstIdle)));
}

MeasuredSteps MeasuredSteps::compute(const Facts& facts) {
  const Steps& steps = facts.get<Steps>();
  MeasuredSteps m;
  const std::vector<const Step*> measured = steps.measured();
  m.steps = static_cast<int64_t>(measured.size());
  m.wall_ns = steps.measured_wall_ns();
  if (measured.empty()) return m;
  std::vector<bool> counts(steps.steps.size());
  for (const Step* s : measured) counts[static_cast<size_t>(s - steps.steps.data())] = true;
  add_makeup(facts, counts, m);
  add_work(facts, m);
  return m;
}

extern const Analysis kMeasuredSection;
const Analysis kMeasuredSection = {"measured", "Measured steps", "what the measured steps are made of, for `profgpu diff`",
                                   show_measured};

}  // namespace profgpu
