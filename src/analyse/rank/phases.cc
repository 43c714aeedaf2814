// The rules are output.md's, in its order. Each is a layer of labeled time below the layers before it.
#include "analyse/rank/phases.h"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "analyse/rank/devices.h"
#include "analyse/rank/host_collectives.h"
#include "analyse/rank/idle.h"
#include "analyse/rank/steps.h"
#include "base/statistics.h"
#include "base/text.h"
#include "trace/radix_sort.h"

namespace profgpu {
namespace {

/// Intervals by phase, disjoint within a layer.
using Layer = std::array<Intervals, kMaxPhases>;

Intervals& of(Layer& layer, Phase phase) { return layer[static_cast<size_t>(phase)]; }

bool is_own(Phase phase) { return static_cast<int>(phase) >= kPhases; }

Intervals all_of(const Layer& layer) {
  Intervals all;
  for (const Intervals& part : layer) all.insert(all.end(), part.begin(), part.end());
  return merged(std::move(all));
}

/// Ranges with names of the program's own. Outermost ones are phases, except those that merely contain others: ranges
/// around most of a step, or mostly filled by other ranges.
class OwnRanges {
 public:
  OwnRanges(const Facts& facts, ThreadId thread) : facts_(facts), trace_(facts.trace()) {
    for (const Step& s : facts.get<Steps>().steps) steps_.push_back(s.interval()), step_names_.insert(s.name);
    steps_ = merged(std::move(steps_));
    const HostTable& h = trace_.host;
    const Thread& t = trace_.threads[thread.value];
    std::vector<uint32_t> open;   // rows
    for (uint32_t i = t.begin.value; i < t.end.value; ++i) {
      if (!is_candidate(i) && !is_marked(i)) continue;
      while (!open.empty() && h.end_ns(HostId(open.back())) <= h.start_ns[i]) open.pop_back();
      const int64_t in_steps = overlap_length(steps_, h.interval(HostId(i)));
      if (!open.empty() && is_candidate(open.back())) sums_[h.name[open.back()].value].within_ns += in_steps;
      if (is_candidate(i)) sums_[h.name[i].value].total_ns += in_steps;
      open.push_back(i);
    }
    for (auto& [name, sum] : sums_) sum.whole = sum.within_ns * 2 <= sum.total_ns && !is_step(sum.total_ns);
    int64_t until = INT64_MIN;
    for (uint32_t i = t.begin.value; i < t.end.value; ++i) {
      if (h.start_ns[i] < until || (!is_marked(i) && !(is_candidate(i) && sums_[h.name[i].value].whole))) continue;
      until = h.end_ns(HostId(i));
      if (is_candidate(i)) sums_[h.name[i].value].outermost_ns += overlap_length(steps_, h.interval(HostId(i)));
    }
    choose();
  }
  /// In Phases::own's order.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const StringId name : chosen_) names.emplace_back(trace_.strings[name]);
    return names;
  }
  /// kOther: not a phase.
  [[nodiscard]] Phase of(uint32_t row) const {
    if (trace_.host.kind[row] != HostKind::kAnnotation) return Phase::kOther;
    const auto at = std::ranges::find(chosen_, trace_.host.name[row]);
    return at == chosen_.end() ? Phase::kOther : own_phase(static_cast<size_t>(at - chosen_.begin()));
  }

 private:
  static constexpr double kStepShare = 0.9;   // a range of at least that much of the steps is the step itself
  struct Sum {
    int64_t total_ns = 0, within_ns = 0;   // in steps; of that, in ranges directly inside
    bool whole = false;                    // more than those ranges
    int64_t outermost_ns = 0;              // with no phase around it
  };

  [[nodiscard]] bool is_marked(uint32_t row) const {
    const HostTable& h = trace_.host;
    return h.kind[row] != HostKind::kPython && facts_.get<Names>().phase[h.name[row].value] != Phase::kOther;
  }
  bool is_candidate(uint32_t row) {
    const HostTable& h = trace_.host;
    if (h.kind[row] != HostKind::kAnnotation) return false;
    const auto [at, fresh] = candidate_.try_emplace(h.name[row].value, false);
    if (fresh) {
      const std::string_view name = trace_.strings[h.name[row]];
      at->second = facts_.get<Names>().phase[h.name[row].value] == Phase::kOther && may_be_own_phase(name) &&
                   !step_names_.contains(name);
    }
    return at->second;
  }
  void choose() {
    for (const auto& [name, sum] : sums_)
      if (sum.outermost_ns > 0) chosen_.emplace_back(name);
    std::ranges::sort(chosen_, {}, [&](StringId name) { return std::pair(-sums_[name.value].outermost_ns, name); });
    if (chosen_.size() > kMaxPhases - kPhases) chosen_.resize(kMaxPhases - kPhases);
  }
  // A range around all of a training step has phases inside, which the ops show.
  [[nodiscard]] bool is_step(int64_t total_ns) const {
    if (static_cast<double>(total_ns) < kStepShare * static_cast<double>(total_length(steps_))) return false;
    const Names& names = facts_.get<Names>();
    return std::ranges::any_of(trace_.host.name, [&](StringId name) {
      return names.autograd[name.value] || names.phase[name.value] == Phase::kBackward;
    });
  }

  const Facts& facts_;
  const Trace& trace_;
  Intervals steps_;
  std::unordered_set<std::string_view> step_names_;
  std::unordered_map<uint32_t, bool> candidate_;   // by name
  std::unordered_map<uint32_t, Sum> sums_;
  std::vector<StringId> chosen_;
};

// Rule 1: at each instant of the thread, the innermost range that marks a phase.
Layer marked_ranges(const Facts& facts, ThreadId thread, const OwnRanges& own) {
  const Names& names = facts.get<Names>();
  const HostTable& h = facts.trace().host;
  Layer layer;
  struct Open {
    int64_t end;
    Phase phase;
  };
  std::vector<Open> stack;
  int64_t at = 0;
  const auto paint_to = [&](int64_t time) {
    if (!stack.empty() && time > at) of(layer, stack.back().phase).push_back({at, time});
    at = std::max(at, time);
  };
  const Thread& t = facts.trace().threads[thread.value];
  for (uint32_t i = t.begin.value; i < t.end.value; ++i) {
    const bool is_frame = h.kind[i] == HostKind::kPython;
    Phase phase = is_frame ? names.frame_phase[h.name[i].value] : names.phase[h.name[i].value];
    if (phase == Phase::kOther && !is_frame) phase = own.of(i);
    if (phase == Phase::kOther) continue;
    while (!stack.empty() && stack.back().end <= h.start_ns[i]) {
      paint_to(stack.back().end);
      stack.pop_back();
    }
    if (is_own(phase) && !stack.empty()) continue;   // a detail of the phase around it
    paint_to(h.start_ns[i]);
    at = h.start_ns[i];
    // If ranges overlap without nesting, the later one ends with the one around it.
    const int64_t end = h.end_ns(HostId(i));
    stack.push_back({stack.empty() ? end : std::min(end, stack.back().end), phase});
  }
  while (!stack.empty()) {
    paint_to(stack.back().end);
    stack.pop_back();
  }
  for (Intervals& part : layer) part = merged(std::move(part));
  return layer;
}

// Ops on the thread that are neither backward ops nor within `outside`, by start.
std::vector<Interval> forward_ops(const Facts& facts, ThreadId thread, const Intervals& outside) {
  const Trace& trace = facts.trace();
  const Names& names = facts.get<Names>();
  const HostTable& h = trace.host;
  std::vector<Interval> ops;
  const Thread& t = trace.threads[thread.value];
  int64_t backward_until = INT64_MIN;
  for (uint32_t i = t.begin.value; i < t.end.value; ++i) {
    if (h.kind[i] != HostKind::kOp || names.phase[h.name[i].value] != Phase::kOther) continue;
    if (names.autograd[h.name[i].value]) backward_until = std::max(backward_until, h.end_ns(HostId(i)));
    if (h.start_ns[i] < backward_until) continue;
    if (!contains(outside, h.start_ns[i])) ops.push_back(h.interval(HostId(i)));
  }
  return ops;
}

// Rule 2: backward ops of any thread, joined into one stretch per micro-batch. Work of the step's thread separates two
// micro-batches: forward ops, data loading, the optimizer, the start of a step.
Intervals backward_stretches(const Facts& facts, const std::vector<Interval>& forward, const Intervals& marked) {
  const Trace& trace = facts.trace();
  const Names& names = facts.get<Names>();
  Intervals ops;
  for (uint32_t i = 0; i < trace.host.size(); ++i)
    if (names.autograd[trace.host.name[i].value] && trace.host.kind[i] != HostKind::kPython)
      ops.push_back(trace.host.interval(HostId(i)));
  ops = merged(std::move(ops));
  std::vector<int64_t> parting;
  for (const Interval& op : forward) parting.push_back(op.start);
  for (const Interval& range : marked) parting.push_back(range.start);
  for (const Step& step : facts.get<Steps>().steps) parting.push_back(step.start_ns);
  radix_sort(parting);
  Intervals stretches;
  for (const Interval& op : ops) {
    const auto next = stretches.empty() ? parting.begin() : std::ranges::lower_bound(parting, stretches.back().end);
    if (!stretches.empty() && (next == parting.end() || *next >= op.start)) stretches.back().end = op.end;
    else stretches.push_back(op);
  }
  return stretches;
}

// Ends of optimizer steps. Clearing gradients is none: it often comes between forward and backward.
std::vector<int64_t> optimizer_ends(const Facts& facts, ThreadId thread) {
  const Trace& trace = facts.trace();
  const Names& names = facts.get<Names>();
  std::vector<int64_t> ends;
  const Thread& t = trace.threads[thread.value];
  for (uint32_t i = t.begin.value; i < t.end.value; ++i) {
    if (names.phase[trace.host.name[i].value] != Phase::kOptimizer || trace.host.kind[i] == HostKind::kPython) continue;
    if (!contains(trace.name(HostId(i)), "zero_grad")) ends.push_back(trace.host.end_ns(HostId(i)));
  }
  return ends;
}

// Without a device, time without an operator that lasts that long is the program's own work between operators. With
// one, it may be hidden behind the device's work, and shows as idle time if it is not.
constexpr int64_t kPause_ns = 200'000;

/// What of a stretch of time before a backward pass is the forward pass: where operators and modules run, and what is
/// between them unless it is a pause. Operators before those of the backward pass's graph, as of logging and
/// augmentation, count only if they fill most of the time until then, as a frozen part of the model does.
class ForwardWithoutDevice {
 public:
  ForwardWithoutDevice(const Facts& facts, ThreadId thread, const std::vector<Interval>& ops) : busy_(ops) {
    const Trace& trace = facts.trace();
    const HostTable& h = trace.host;
    const Thread& t = trace.threads[thread.value];
    for (uint32_t i = t.begin.value; i < t.end.value; ++i)
      if (h.kind[i] == HostKind::kPython && trace.name(HostId(i)).starts_with("nn.Module: "))
        modules_.push_back(h.interval(HostId(i)));
    modules_ = merged(std::move(modules_));
    busy_ = unite(merged(std::move(busy_)), modules_);
    for (const BackwardLink& link : trace.backward_links)
      if (h.thread[link.forward.value] == thread) of_graph_.push_back(h.start_ns[link.forward.value]);
    radix_sort(of_graph_);
  }

  void add(Interval stretch, Intervals& forward) const {
    Intervals parts;
    for (const Interval& part : clipped(busy_, stretch)) {
      if (!parts.empty() && part.start - parts.back().end <= kPause_ns) parts.back().end = part.end;
      else parts.push_back(part);
    }
    if (!parts.empty() && stretch.end - parts.back().end <= kPause_ns) parts.back().end = stretch.end;
    const int64_t start = start_of(stretch, parts);
    for (const Interval& part : parts)
      if (part.end > start) forward.push_back({std::max(part.start, start), part.end});
  }

 private:
  [[nodiscard]] int64_t start_of(Interval stretch, const Intervals& parts) const {
    const auto first = std::ranges::lower_bound(of_graph_, stretch.start);
    if (first == of_graph_.end() || *first >= stretch.end) return stretch.start;
    int64_t start = *first;
    const size_t module = first_ending_after(modules_, start);
    if (module < modules_.size() && modules_[module].start < start)
      start = std::max(modules_[module].start, stretch.start);
    const size_t part = first_ending_after(parts, start);
    if (part >= parts.size() || parts[part].start >= start) return start;
    const Interval before{parts[part].start, start};
    return 2 * overlap_length(busy_, before) >= before.length() ? before.start : start;
  }

  Intervals busy_, modules_;
  std::vector<int64_t> of_graph_;   // starts of operators that a backward operator belongs to
};

// Without backward and optimizer: from the first op to the last, interrupted by the program's own phases, and without a
// device by pauses.
Intervals forward_of_inference(const Facts& facts, const std::vector<Interval>& ops, const Layer& marked) {
  const bool device = !facts.get<Devices>().devices.empty();
  Intervals forward{ops.front()};
  for (const Interval& op : ops) {
    const auto parts = [&](const Intervals& own) {
      const size_t next = first_ending_after(own, forward.back().end);
      return next < own.size() && own[next].start < op.start;
    };
    const bool pause = !device && op.start - forward.back().end > kPause_ns;
    if (pause || std::ranges::any_of(std::span(marked).subspan(kPhases), parts)) forward.push_back(op);
    else forward.back().end = std::max(forward.back().end, op.end);
  }
  return forward;
}

// Rule 4: from the first op after data loading, the step's start, the optimizer or the previous micro-batch, to the
// first backward op.
Intervals forward_stretches(const Facts& facts, const std::vector<Interval>& ops, const Intervals& backward,
                            const Layer& marked) {
  if (ops.empty()) return {};
  const Steps& steps = facts.get<Steps>();
  const Intervals& loading = marked[static_cast<size_t>(Phase::kDataLoading)];
  if (backward.empty() && marked[static_cast<size_t>(Phase::kOptimizer)].empty())
    return forward_of_inference(facts, ops, marked);
  std::vector<int64_t> starts = optimizer_ends(facts, steps.thread);
  for (const Step& step : steps.steps) starts.push_back(step.start_ns);
  for (const Interval& range : loading) starts.push_back(range.end);
  for (const Interval& stretch : backward) starts.push_back(stretch.end);
  radix_sort(starts);
  Intervals forward;
  std::optional<ForwardWithoutDevice> without_device;
  if (facts.get<Devices>().devices.empty()) without_device.emplace(facts, steps.thread, ops);
  for (const Interval& stretch : backward) {
    const auto after = std::ranges::upper_bound(starts, stretch.start);
    if (after == starts.begin()) continue;
    const auto op = std::ranges::lower_bound(ops, *std::prev(after), {}, &Interval::start);
    if (op == ops.end() || op->start >= stretch.start) continue;
    const Interval whole{op->start, stretch.start};
    if (without_device) without_device->add(whole, forward);
    else forward.push_back(whole);
  }
  return merged(std::move(forward));
}

// Without a device: waits for collectives of the host, but for those in data loading and checkpoints.
Layer waits_for_ranks(const Facts& facts, const Layer& marked) {
  const auto in = [&](Phase phase) { return marked[static_cast<size_t>(phase)]; };
  Layer layer;
  of(layer, Phase::kCommunication) =
      subtract(facts.get<HostCollectives>().waits, unite(in(Phase::kDataLoading), in(Phase::kCheckpoint)));
  return layer;
}

/// Labels in time order, for lookup by time.
std::vector<PhaseSegment> flattened(const std::vector<Layer>& layers) {
  std::vector<PhaseSegment> out;
  Intervals covered;
  for (const Layer& layer : layers) {
    for (int p = 0; p < kMaxPhases; ++p)
      for (const Interval& part : subtract(layer[p], covered))
        out.push_back({part.start, part.end, static_cast<Phase>(p), 0});
    covered = unite(covered, all_of(layer));
  }
  std::ranges::sort(out, {}, &PhaseSegment::start_ns);
  return out;
}

Phase phase_at(const std::vector<PhaseSegment>& segments, int64_t time) {
  const auto it = std::ranges::upper_bound(segments, time, {}, &PhaseSegment::start_ns);
  return it != segments.begin() && std::prev(it)->end_ns > time ? std::prev(it)->phase : Phase::kOther;
}

// The phase that launched each activity: from a backward op around the call, else the phase of the step's thread at
// that time.
std::vector<Phase> phases_of_activity(const Facts& facts, ThreadId thread, const std::vector<PhaseSegment>& base) {
  const Trace& trace = facts.trace();
  const Names& names = facts.get<Names>();
  const HostTable& h = trace.host;
  std::vector<Phase> of_activity(trace.activity.size(), Phase::kOther);
  std::vector<Phase> last(trace.queues.size(), Phase::kOther);
  HostId known_call;
  Phase known = Phase::kOther;
  for (uint32_t i = 0; i < trace.activity.size(); ++i) {
    const HostId call = trace.activity.launch[i];
    Phase& before = last[trace.activity.queue[i]];
    if (call.valid() && call != known_call) {
      known_call = call;
      known = phase_at(base, h.start_ns[call.value]);
      const auto is_backward = [&](HostId at) { return names.autograd[h.name[at.value].value]; };
      if (h.thread[call.value] != thread && trace.enclosing(h.parent[call.value], is_backward).valid())
        known = Phase::kBackward;
    }
    if (call.valid()) before = known;
    of_activity[i] = before;
  }
  return of_activity;
}

/// The devices' work during waits of the host.
class Running {
 public:
  Running(const Facts& facts, const std::vector<Phase>& of_activity)
      : trace_(facts.trace()), kind_(facts.get<Devices>().kind), of_activity_(of_activity) {
    for (uint32_t i = 0; i < trace_.activity.size(); ++i) by_start_.push_back(i);
    if (trace_.device_rows.size() > 1)
      std::ranges::stable_sort(by_start_, {}, [&](uint32_t i) { return trace_.activity.start_ns[i]; });
  }

  // Rule 3 for one wait. Waits must come in order of time.
  void label(Interval wait, Layer& layer) {
    const ActivityTable& a = trace_.activity;
    std::erase_if(open_, [&](uint32_t i) { return a.end_ns(ActivityId(i)) <= wait.start; });
    int64_t at = wait.start;
    while (at < wait.end) {
      while (next_ < by_start_.size() && a.start_ns[by_start_[next_]] <= at) {
        if (a.end_ns(ActivityId(by_start_[next_])) > at) open_.push_back(by_start_[next_]);
        ++next_;
      }
      int64_t until = wait.end;
      if (next_ < by_start_.size()) until = std::min(until, a.start_ns[by_start_[next_]]);
      for (const uint32_t i : open_) until = std::min(until, a.end_ns(ActivityId(i)));
      if (!open_.empty()) of(layer, phase_of_open()).push_back({at, until});
      else if (next_ < by_start_.size()) of(layer, phase_alone(by_start_[next_])).push_back({at, until});
      at = until;
      std::erase_if(open_, [&](uint32_t i) { return a.end_ns(ActivityId(i)) <= at; });
    }
  }

 private:
  [[nodiscard]] Phase phase_alone(uint32_t i) const {
    return kind_[i] == WorkKind::kCommunication ? Phase::kCommunication : of_activity_[i];
  }
  // Compute takes precedence over copies, copies over communication; then the first started.
  [[nodiscard]] Phase phase_of_open() const {
    return phase_alone(*std::ranges::min_element(open_, {}, [&](uint32_t i) {
      return kind_[i] == WorkKind::kCompute ? 0 : kind_[i] == WorkKind::kMemory ? 1 : 2;
    }));
  }

  const Trace& trace_;
  const std::vector<WorkKind>& kind_;
  const std::vector<Phase>& of_activity_;
  std::vector<uint32_t> by_start_, open_;
  size_t next_ = 0;
};

void add_segments(const Steps& steps, const std::vector<PhaseSegment>& painted, Phases& phases) {
  size_t at = 0;
  for (uint32_t s = 0; s < steps.steps.size(); ++s)
    add_partition(steps.steps[s].interval(), s, painted, at, phases.segments);
}

void add_totals(const Facts& facts, Phases& phases) {
  const Steps& steps = facts.get<Steps>();
  for (const PhaseSegment& s : phases.segments) {
    const auto p = static_cast<size_t>(s.phase);
    phases.wall_ns[p] += s.end_ns - s.start_ns;
    if (steps.steps[s.step].measured) phases.measured_wall_ns[p] += s.end_ns - s.start_ns;
  }
  const Trace& trace = facts.trace();
  std::array<Intervals, kMaxPhases> busy;
  for (const Trace::DeviceRows& rows : trace.device_rows) {
    for (Intervals& b : busy) b.clear();
    for (uint32_t i = rows.begin.value; i < rows.end.value; ++i)
      busy[static_cast<size_t>(phases.of_activity[i])].push_back(trace.activity.interval(ActivityId(i)));
    for (int p = 0; p < kMaxPhases; ++p) phases.device_busy_ns[p] += total_length(merged(std::move(busy[p])));
  }
}

PhaseShare share_of(const Phases& phases, Phase phase, int64_t ns, int64_t whole) {
  return {std::string(phases.name(phase)), ns, percent_of(ns, whole)};
}

}  // namespace

std::vector<PhaseRow> PhaseRow::rows(const Facts& facts) {
  const Phases& phases = facts.get<Phases>();
  const bool device = !facts.get<Devices>().devices.empty();
  std::vector<PhaseRow> rows;
  for (const Phase phase : phases.all()) {
    const auto p = static_cast<size_t>(phase);
    rows.push_back({share_of(phases, phase, phases.wall_ns[p], facts.get<Steps>().total_wall_ns()),
                    only_if(device, phases.device_busy_ns[p])});
  }
  return rows;
}

std::optional<AverageStep> AverageStep::compute(const Facts& facts) {
  const Steps& steps = facts.get<Steps>();
  const auto n = static_cast<int64_t>(steps.measured().size());
  if (n == 0) return std::nullopt;
  const int64_t wall = steps.measured_wall_ns();
  AverageStep mean{n, wall / n, total_length(steps.measured_time()) / n, false, {}, false};
  mean.works_between = std::ranges::any_of(
      steps.measured(), [](const Step* s) { return s->elapsed.start < s->start_ns - s->duration_ns / 10; });
  const Phases& phases = facts.get<Phases>();
  for (const Phase phase : phases.all()) {
    mean.phases.push_back(share_of(phases, phase, phases.measured_wall_ns[static_cast<size_t>(phase)], wall));
    mean.phases.back().wall_ns /= n;
  }
  return mean;
}

std::vector<Phase> Phases::all() const {
  std::vector<Phase> phases;
  for (int p = 0; p < kPhases; ++p)
    if (static_cast<Phase>(p) != Phase::kOther) phases.push_back(static_cast<Phase>(p));
  for (size_t i = 0; i < own.size(); ++i) phases.push_back(own_phase(i));
  phases.push_back(Phase::kOther);
  return phases;
}

namespace {

// As the log's own timers have it, one after the other from the step's start; what none of them covers is other.
Phases phases_of_log(const Facts& facts) {
  constexpr std::array<Phase, kLogPhases> kOfLog = {Phase::kDataLoading, Phase::kForward, Phase::kBackward,
                                                    Phase::kOptimizer, Phase::kCommunication, Phase::kCheckpoint,
                                                    own_phase(0)};
  Phases phases;
  std::vector<PhaseSegment> painted;
  for (const LogStep& s : facts.trace().log_steps) {
    int64_t at = s.start_ns;
    const int64_t end = s.start_ns + s.duration_ns.value_or(0);
    for (size_t p = 0; p < kLogPhases; ++p) {
      const int64_t until = at + std::clamp<int64_t>(s.phase_ns[p], 0, end - at);
      if (until > at) painted.push_back({at, until, kOfLog[p], 0});
      if (until > at && is_own(kOfLog[p])) phases.own = {"forward-backward"};
      at = until;
    }
  }
  add_segments(facts.get<Steps>(), painted, phases);
  add_totals(facts, phases);
  return phases;
}

}  // namespace

Phases Phases::compute(const Facts& facts) {
  const Steps& steps = facts.get<Steps>();
  if (!facts.trace().log_steps.empty()) return phases_of_log(facts);
  Phases phases;
  phases.of_activity.resize(facts.trace().activity.size(), Phase::kOther);
  if (!steps.thread.valid()) {
    add_segments(steps, {}, phases);
    add_totals(facts, phases);
    return phases;
  }
  const OwnRanges own(facts, steps.thread);
  phases.own = own.names();
  Layer marked = marked_ranges(facts, steps.thread, own);
  phases.data_loading = of(marked, Phase::kDataLoading);
  phases.checkpoint = of(marked, Phase::kCheckpoint);
  const Intervals any_marked = all_of(marked);
  const std::vector<Interval> ops = forward_ops(facts, steps.thread, any_marked);
  Layer backward, forward;
  of(backward, Phase::kBackward) = backward_stretches(facts, ops, any_marked);
  of(forward, Phase::kForward) = forward_stretches(facts, ops, of(backward, Phase::kBackward), marked);
  phases.backward_passes = static_cast<int64_t>(of(backward, Phase::kBackward).size());
  phases.backward = of(of(backward, Phase::kBackward).empty() ? marked : backward, Phase::kBackward);
  phases.optimizer_steps = static_cast<int64_t>(optimizer_ends(facts, steps.thread).size());
  phases.of_activity = phases_of_activity(facts, steps.thread, flattened({marked, backward, forward}));

  const Intervals& waits = facts.get<Waits>().device_waits[steps.thread.value];
  Layer waiting;
  Running running(facts, phases.of_activity);
  for (const Interval& wait : waits) running.label(wait, waiting);
  for (Intervals& part : waiting) part = merged(std::move(part));
  Layer working = marked;
  for (int p = 0; p < kPhases; ++p) working[p] = subtract(working[p], waits);   // the program's own phases stay whole
  // A wait without device work, then or later, stays with the range around it.
  add_segments(steps, flattened({waits_for_ranks(facts, marked), working, backward, waiting, marked, forward}), phases);
  add_totals(facts, phases);
  return phases;
}

void add_partition(const Interval& step, uint32_t index, const std::vector<PhaseSegment>& painted, size_t& at,
                   std::vector<PhaseSegment>& out) {
  int64_t time = step.start;
  while (at < painted.size() && painted[at].end_ns <= step.start) ++at;
  for (size_t i = at; i < painted.size() && painted[i].start_ns < step.end; ++i) {
    const int64_t from = std::max(painted[i].start_ns, time), to = std::min(painted[i].end_ns, step.end);
    if (from > time) out.push_back({time, from, Phase::kOther, index});
    if (to > from) out.push_back({from, to, painted[i].phase, index});
    time = std::max(time, to);
  }
  if (time < step.end) out.push_back({time, step.end, Phase::kOther, index});
}

}  // namespace profgpu
