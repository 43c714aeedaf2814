#include "analyse/rank/measured.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>
#include <unordered_map>

#include "analyse/rank/collectives.h"
#include "analyse/rank/ops.h"
#include "analyse/rank/places.h"
#include "analyse/rank/steps.h"
#include "analyse/rank/work.h"
#include "base/statistics.h"
#include "base/text.h"
#include "trace/radix_sort.h"

namespace profgpu {
namespace {

// State of the device at an instant: a kind of work, the cause of a gap, or neither.
struct StepState {
  enum : uint8_t { kCompute, kCommunication, kMemory, kOutside, kFirstIdle };
  static constexpr int kCount = kFirstIdle + kIdleCauses;
};

std::string idle_state(IdleCause cause) { return "idle: " + std::string(idle_cause_name(cause)); }

std::string step_state_name(int state) {
  constexpr std::string_view kNames[] = {"compute", "communication", "memory", "outside"};
  if (state < StepState::kFirstIdle) return std::string(kNames[state]);
  return idle_state(static_cast<IdleCause>(state - StepState::kFirstIdle));
}

struct StateInterval {
  Interval time;
  int state = StepState::kOutside;
};
uint64_t sort_key(const StateInterval& s) { return ordered(s.time.start); }

// Disjoint, in order of time; the time between them is outside.
std::vector<StateInterval> device_states(const Facts& facts) {
  std::vector<StateInterval> all;
  const Devices& devices = facts.get<Devices>();
  if (devices.busiest < 0) return all;
  const DeviceTime& d = devices.devices[static_cast<size_t>(devices.busiest)];
  const DeviceIdle& idle = facts.get<Idle>().devices[static_cast<size_t>(devices.busiest)];
  all.reserve(d.compute.size() + d.exposed_communication.size() + d.exposed_memory.size() + idle.gaps.size() +
              idle.edges.size());
  const auto add = [&](const Intervals& time, int state) {
    for (const Interval& i : time) all.push_back({i, state});
  };
  add(d.compute, StepState::kCompute);
  add(d.exposed_communication, StepState::kCommunication);
  add(d.exposed_memory, StepState::kMemory);
  idle.each([&](const Gap& g) {
    all.push_back({g.time(), StepState::kFirstIdle + static_cast<int>(g.cause)});
  });
  radix_sort(all);
  return all;
}

// Sum per step. Steps come one after the other.
class StepSum {
 public:
  void add(const Step& step, int64_t ns) {
    if (&step != step_) close();
    step_ = &step;
    now_ += ns;
  }
  /// Deviation over `steps`, including those without any time.
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
  const Step* step_ = nullptr;
  int64_t now_ = 0, total_ = 0;
  double squares_ = 0;
};

// Partition of the measured steps' elapsed time: what no range on the host covers is `other`.
std::vector<PhaseSegment> measured_segments(const Facts& facts) {
  const std::vector<Step>& steps = facts.get<Steps>().steps;
  const std::vector<PhaseSegment>& of_ranges = facts.get<Phases>().segments;
  std::vector<PhaseSegment> segments;
  size_t at = 0;
  for (uint32_t i = 0; i < steps.size(); ++i)
    if (steps[i].measured) add_partition(steps[i].elapsed, i, of_ranges, at, segments);
  return segments;
}

void add_makeup(const Facts& facts, MeasuredSteps& m) {
  const std::vector<Step>& steps = facts.get<Steps>().steps;
  const std::vector<StateInterval> states = device_states(facts);
  std::array<StepSum, kMaxPhases> phases;
  std::array<StepSum, StepState::kCount> of_state;
  std::array<std::array<int64_t, StepState::kCount>, kMaxPhases> makeup_ns{};
  const auto take = [&](const PhaseSegment& s, int state, int64_t ns) {
    if (ns == 0) return;
    makeup_ns[static_cast<size_t>(s.phase)][static_cast<size_t>(state)] += ns;
    phases[static_cast<size_t>(s.phase)].add(steps[s.step], ns);
    of_state[static_cast<size_t>(state)].add(steps[s.step], ns);
  };
  size_t at = 0;
  for (const PhaseSegment& s : measured_segments(facts)) {
    while (at < states.size() && states[at].time.end <= s.start_ns) ++at;
    int64_t outside = s.end_ns - s.start_ns;
    for (size_t i = at; i < states.size() && states[i].time.start < s.end_ns; ++i) {
      const int64_t ns = overlap_length(states[i].time, {s.start_ns, s.end_ns});
      take(s, states[i].state, ns);
      outside -= ns;
    }
    take(s, StepState::kOutside, outside);
  }
  for (int i = 0; i < StepState::kCount; ++i)
    if (const Varying time = of_state[static_cast<size_t>(i)].over(m.steps); time.total_ns != 0)
      m.states.push_back({step_state_name(i), time});
  for (const Phase each : facts.get<Phases>().all()) {
    const auto p = static_cast<size_t>(each);
    const std::string phase(facts.get<Phases>().name(each));
    m.phases.push_back({phase, phases[p].over(m.steps)});
    for (int i = 0; i < StepState::kCount; ++i)
      if (const int64_t ns = makeup_ns[p][static_cast<size_t>(i)]; ns != 0)
        m.makeup.push_back({phase, step_state_name(i), ns});
  }
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

/// The ranges around ops, without those of whole steps.
class Enclosing {
 public:
  explicit Enclosing(const Facts& facts) : trace_(facts.trace()), step_of_(facts.get<Steps>()) {}

  /// Inner first, as numbers of names. Valid until the next call.
  const std::vector<uint32_t>& around(HostId op) {
    constexpr size_t kMaxRanges = 8;
    if (op == last_) return ranges_;
    last_ = op;
    ranges_.clear();
    const HostTable& h = trace_.host;
    const Step* step = step_of_(h.start_ns[op.value]);
    for (HostId at = h.parent[op.value]; at.valid() && ranges_.size() < kMaxRanges; at = h.parent[at.value]) {
      if (step != nullptr && h.interval(at).contains(step->start_ns) && h.end_ns(at) >= step->interval().end) break;
      if (const uint32_t name = name_of(at); name != kNone && !has(name)) ranges_.push_back(name);
    }
    return ranges_;
  }
  [[nodiscard]] const std::string& name(uint32_t number) const { return names_[number]; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  [[nodiscard]] bool has(uint32_t name) const { return std::ranges::count(ranges_, name) > 0; }

  uint32_t name_of(HostId range) {
    constexpr std::string_view kModule = "nn.Module: ";
    const HostKind kind = trace_.host.kind[range.value];
    const std::string_view text = trace_.name(range);
    const bool module = kind == HostKind::kPython && text.starts_with(kModule);
    if (!module && kind != HostKind::kOp && kind != HostKind::kAnnotation) return kNone;
    const StringId id = trace_.host.name[range.value];
    const auto [it, fresh] = number_of_.try_emplace(id.value, kNone);
    if (!fresh) return it->second;
    // Modules of a class are numbered: Linear_17.
    std::string shown(text);
    if (const size_t end = text.find_last_not_of("0123456789"); module && end + 1 < text.size() && text[end] == '_')
      shown.resize(end);
    const auto known = std::ranges::find(names_, shown);
    it->second = static_cast<uint32_t>(known - names_.begin());
    if (known == names_.end()) names_.push_back(std::move(shown));
    return it->second;
  }

  const Trace& trace_;
  StepFinder step_of_;
  HostId last_;
  std::vector<uint32_t> ranges_;
  std::vector<std::string> names_;
  std::unordered_map<uint32_t, uint32_t> number_of_;
};

// Of what all calls so far have, what these have too.
void keep_common(std::vector<uint32_t>& ranges, const std::vector<uint32_t>& others) {
  std::erase_if(ranges, [&](uint32_t r) { return std::ranges::count(others, r) == 0; });
}

void add_work(const Facts& facts, MeasuredSteps& m) {
  const Trace& trace = facts.trace();
  const Devices& devices = facts.get<Devices>();
  const Ops& ops = facts.get<Ops>();
  const Kernels& kernels = facts.get<Kernels>();
  std::unordered_map<WorkKey, size_t, WorkHash> place_of;
  std::vector<StepSum> sums;
  std::vector<std::vector<uint32_t>> within;
  Enclosing enclosing(facts);
  StepFinder step_of(facts.get<Steps>(), StepFinder::By::kElapsed);
  const auto text = [&](StringId id) { return only_if(id.valid(), std::string(trace.strings[id])); };
  for (uint32_t i = 0; i < trace.activity.size(); ++i) {
    const Step* step = step_of(trace.activity.start_ns[i]);
    if (step == nullptr || !step->measured) continue;
    WorkKey key{trace.activity.name[i], {}, {}, devices.kind[i]};
    if (const HostId op = ops.of_activity[i]; op.valid()) {
      key.op = trace.host.name[op.value];
      key.shapes = shapes_of(trace, op);
    }
    const auto [it, fresh] = place_of.try_emplace(key, sums.size());
    if (fresh) {
      sums.emplace_back();
      const std::string name(trace.strings[key.name]);
      const bool copy = key.kind == WorkKind::kMemory;
      const KernelCategory category = copy ? KernelCategory::kCopy : kernels.category[key.name.value];
      std::optional<std::string> shapes = text(key.shapes);
      if (shapes) shapes = list_on_one_line(*shapes);
      m.work.push_back({name, short_kernel_name(name), key.kind, category, text(key.op), std::move(shapes), 0, {}});
      within.push_back(key.op.valid() ? enclosing.around(ops.of_activity[i]) : std::vector<uint32_t>());
    } else if (!within[it->second].empty()) {
      keep_common(within[it->second], enclosing.around(ops.of_activity[i]));
    }
    ++m.work[it->second].count;
    sums[it->second].add(*step, trace.activity.duration_ns[i]);
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    m.work[i].time = sums[i].over(m.steps);
    for (const uint32_t range : within[i]) m.work[i].within.push_back(enclosing.name(range));
  }
  std::sort(m.work.begin(), m.work.end(), [](const MeasuredWork& a, const MeasuredWork& b) {
    if (a.time.total_ns != b.time.total_ns) return a.time.total_ns > b.time.total_ns;
    return std::tie(a.name, a.op, a.shapes, a.kind) < std::tie(b.name, b.op, b.shapes, b.kind);
  });
}

// By name and file: lines move from one version of the program to the next.
std::vector<MeasuredFunction> functions_of(const Facts& facts) {
  std::vector<MeasuredFunction> functions;
  for (const Place& p : facts.get<HostPlaces>().places) {
    if (p.file.empty()) continue;
    const auto same = [&](const MeasuredFunction& f) { return f.name == p.name && f.file == p.file; };
    const auto known = std::ranges::find_if(functions, same);
    if (known != functions.end()) known->total_ns += p.ns;
    else functions.push_back({p.name, p.file, p.ns});
  }
  std::ranges::stable_sort(functions, std::greater(), &MeasuredFunction::total_ns);
  return functions;
}

}  // namespace

bool NamedTime::is_unknown_work() const {
  return name == idle_state(IdleCause::kUntracedWork) || name == idle_state(IdleCause::kNoRequests);
}

int64_t MeasuredSteps::known_wall_ns() const {
  return wall_ns - sum_of(states, [](const NamedTime& s) { return s.is_unknown_work() ? s.time.total_ns : 0; });
}

MeasuredSteps MeasuredSteps::compute(const Facts& facts) {
  const Steps& steps = facts.get<Steps>();
  MeasuredSteps m;
  m.steps = static_cast<int64_t>(steps.measured().size());
  m.wall_ns = total_length(steps.measured_time());
  add_makeup(facts, m);
  add_work(facts, m);
  for (const OpRow& o : facts.get<Ops>().rows)
    if (o.measured_calls > 0) m.ops.push_back({o.text, o.measured_calls, o.measured_self_ns, o.step_stddev_ns});
  for (const CollectiveRow& c : facts.get<Collectives>().rows)
    if (c.measured_calls > 0)
      m.collectives.push_back({c.name, c.dtype, c.message_bytes, c.measured_calls, c.measured_ns});
  m.functions = functions_of(facts);
  return m;
}

}  // namespace profgpu
