// Rows, nesting and omissions follow torch/autograd/profiler_util.py of PyTorch 2.13 (_filter_name, _rewrite_name,
// _populate_cpu_children, _remove_dup_nodes, key_averages). Unlike key_averages, Python frames are no rows here: an
// op's own time means the same whether or not stacks were recorded.
//
// One walk. Budget: 40 ns per host row.
#include "analyse/rank/ops.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "analyse/rank/captures.h"
#include "analyse/rank/steps.h"
#include "analyse/rank/work.h"
#include "base/saturated.h"

namespace profgpu {
namespace {

constexpr std::string_view kStepPrefix = "ProfilerStep#";
constexpr std::string_view kStepRow = "ProfilerStep*";

// Calls of the C library are left out too: threads that only wait would come first.
bool is_row_kind(HostKind kind) {
  return kind != HostKind::kPython && kind != HostKind::kOverhead && kind != HostKind::kSystem;
}

// The profiler's own ops, which key_averages omits: their parents keep that time as their own.
bool is_left_out(std::string_view name) {
  return name == "[memory]" || name == "[OutOfMemory]" || name == "profiler::_record_function_enter" ||
         name == "profiler::_record_function_enter_new" || name == "profiler::_record_function_exit" ||
         name == "aten::is_leaf" || name == "aten::output_nr" || name == "aten::_version";
}

// Classifies each string of the trace once: the name of its row, or none.
class OpNames {
 public:
  explicit OpNames(const Trace& trace) : trace_(trace), name_(trace.strings.size(), kUnknown) {}

  /// The string that names the row; invalid: it has no row.
  StringId of(uint32_t host) {
    const StringId id = trace_.host.name[host];
    if (!id.valid()) return {};
    uint32_t& known = name_[id.value];
    if (known == kUnknown) known = classify(id);
    StringId name;
    name.value = known;
    return name;
  }
  [[nodiscard]] std::string_view text(StringId name) const { return name == step_ ? kStepRow : trace_.strings[name]; }

 private:
  static constexpr uint32_t kUnknown = StringId::kNone - 1;

  uint32_t classify(StringId id) {
    const std::string_view text = trace_.strings[id];
    if (is_left_out(text)) return StringId::kNone;
    if (!text.starts_with(kStepPrefix)) return id.value;
    if (!step_.valid()) step_ = id;
    return step_.value;
  }

  const Trace& trace_;
  std::vector<uint32_t> name_;
  StringId step_;
};

// One call of an op.
struct Call {
  uint32_t host = 0;
  StringId name;
  int64_t self_ns = 0;             ///< without its children
  int64_t device_inside_ns = 0;    ///< launched by its children
  int64_t device_self_ns = 0;
  const Step* step = nullptr;      ///< the measured one in which it begins; null: none
};

/// Walks each thread's ranges in time order and adds calls to their rows as they end.
class OpWalk {
 public:
  OpWalk(const Facts& facts, std::vector<OpRow>& rows)
      : trace_(facts.trace()), h_(trace_.host), names_(trace_), step_of_(facts.get<Steps>()),
        captures_(facts.get<Captures>()), works_(facts.get<OpWorks>()), rows_(rows),
        row_of_(trace_.strings.size() * 2, kNoRow) {}

  void walk() {
    const std::vector<Launched> launched = all_launched();
    auto launch = launched.begin();   // ascending, as the host rows
    for (const Thread& thread : trace_.threads) {
      for (uint32_t i = thread.begin.value; i < thread.end.value; ++i) {
        const bool launches = launch != launched.end() && launch->call.value == i;
        const StringId name = is_row_kind(h_.kind[i]) ? names_.of(i) : StringId();
        if (name.valid()) begin(i, name);
        if (launches && name.valid()) add_device_time(open_.size(), launch->ns);
        launch += launches;
      }
      while (!open_.empty()) end();
    }
  }

  /// After the walk: over `steps`, including those without a call.
  void find_deviations(int64_t steps) {
    for (size_t row = 0; row < rows_.size() && steps > 1; ++row) {
      std::ranges::sort(by_step_[row]);
      const auto n = static_cast<double>(steps), mean = static_cast<double>(rows_[row].measured_self_ns) / n;
      double squares = 0;
      for (auto at = by_step_[row].begin(); at != by_step_[row].end();) {
        double ns = 0;
        for (const Step* step = at->first; at != by_step_[row].end() && at->first == step; ++at)
          ns += static_cast<double>(at->second);
        squares += ns * ns;
      }
      rows_[row].step_stddev_ns = std::sqrt(std::max(0.0, (squares - n * mean * mean) / (n - 1)));
    }
  }

 private:
  static constexpr uint32_t kNoRow = UINT32_MAX;
  struct Open : Call {
    int64_t end_ns = 0;
    uint32_t children = 0;
    std::optional<Call> twin;   ///< its only child, if that has the same name
  };

  // Ranges nest by time alone; one that outlasts the range it started in is not its child.
  void begin(uint32_t host, StringId name) {
    const int64_t start = h_.start_ns[host], end_ns = h_.end_ns(HostId(host));
    while (!open_.empty() && (start >= open_.back().end_ns || end_ns > open_.back().end_ns)) end();
    if (!open_.empty()) {
      Open& parent = open_.back();
      ++parent.children;
      if (parent.twin) add_child(parent, *std::exchange(parent.twin, std::nullopt));
    }
    Open& open = open_.emplace_back();
    open.host = host;
    open.name = name;
    open.self_ns = h_.duration_ns[host];
    const Step* step = step_of_(start);
    open.step = step != nullptr && step->measured ? step : nullptr;
    open.end_ns = end_ns;
  }

  // An only child with its parent's name is the same call, recorded twice.
  void end() {
    if (const auto twin = std::exchange(open_.back().twin, std::nullopt)) {
      Open& both = open_.back();
      both.self_ns += twin->self_ns - h_.duration_ns[twin->host];
      both.device_inside_ns += twin->device_inside_ns;
      add_device_time(open_.size(), twin->device_self_ns);
    }
    const Call call = open_.back();
    open_.pop_back();
    if (open_.empty()) return add(call);
    Open& parent = open_.back();
    if (parent.children == 1 && parent.name == call.name) parent.twin = call;
    else add_child(parent, call);
  }

  void add_child(Open& parent, const Call& call) {
    parent.self_ns -= h_.duration_ns[call.host];
    parent.device_inside_ns += call.device_inside_ns + call.device_self_ns;
    add(call);
  }

  // To the innermost op of the first `depth` open ranges, else to the innermost annotation.
  void add_device_time(size_t depth, int64_t ns) {
    Open* annotation = nullptr;
    for (size_t i = depth; i-- > 0;) {
      const HostKind kind = h_.kind[open_[i].host];
      if (kind == HostKind::kOp) return void(open_[i].device_self_ns += ns);
      if (kind == HostKind::kAnnotation && annotation == nullptr) annotation = &open_[i];
    }
    if (annotation != nullptr) annotation->device_self_ns += ns;
  }

  // A graph's activities count for the calls that were captured.
  struct Launched {
    HostId call;
    int64_t ns = 0;
  };
  [[nodiscard]] std::vector<Launched> all_launched() const {
    std::vector<Launched> all;
    const auto add = [&](HostId call, int64_t ns) {
      if (all.empty() || all.back().call != call) all.push_back({call, 0});
      all.back().ns += ns;
    };
    std::vector<ActivityId> named;
    for (size_t c = 0; c < trace_.launching.size(); ++c)
      for (uint32_t i = trace_.launched_first[c]; i < trace_.launched_first[c + 1]; ++i) {
        const ActivityId a = trace_.launched[i];
        if (captures_.origin(trace_, a) != trace_.launching[c]) named.push_back(a);
        else add(trace_.launching[c], trace_.activity.duration_ns[a.value]);
      }
    if (named.empty()) return all;
    const auto by_call = [](const Launched& a, const Launched& b) { return a.call < b.call; };
    for (const ActivityId a : named) all.push_back({captures_.call[a.value], trace_.activity.duration_ns[a.value]});
    std::stable_sort(all.begin(), all.end(), by_call);
    const std::vector<Launched> parts = std::exchange(all, {});
    for (const Launched& l : parts) add(l.call, l.ns);
    return all;
  }

  void add(const Call& call) {
    // An annotation has its own row even if an op has the same name.
    const bool annotation = h_.kind[call.host] == HostKind::kAnnotation;
    uint32_t& row = row_of_[size_t{call.name.value} * 2 + annotation];
    if (row == kNoRow) {
      row = static_cast<uint32_t>(rows_.size());
      OpRow& fresh = rows_.emplace_back();
      by_step_.emplace_back();
      fresh.name = call.name;
      fresh.text = names_.text(fresh.name);
      fresh.annotation = annotation;
    }
    OpRow& r = rows_[row];
    ++r.calls;
    r.cpu_total_ns += h_.duration_ns[call.host];
    r.cpu_self_ns += call.self_ns;
    r.device_total_ns += call.device_inside_ns + call.device_self_ns;
    r.device_self_ns += call.device_self_ns;
    if (call.step != nullptr) {
      ++r.measured_calls;
      r.measured_self_ns += call.self_ns;
      std::vector<StepTime>& times = by_step_[row];
      if (times.empty() || times.back().first != call.step) times.emplace_back(call.step, 0);
      times.back().second += call.self_ns;
    }
    if (const OpArgsId args = h_.args[call.host]; args.valid()) add_work(r, call.host, trace_.op_args[args.value]);
  }
  void add_work(OpRow& r, uint32_t host, const OpArgs& args) {
    const OpWork& work = works_.of(HostId(host));
    const auto add_known = [](std::optional<int64_t>& sum, int64_t part) { sum = saturated_add(sum.value_or(0), part); };
    if (work.flops >= 0) add_known(r.flops, work.flops);
    else if (args.flops > 0) add_known(r.flops, static_cast<int64_t>(args.flops));
    if (work.bytes >= 0) add_known(r.bytes, work.bytes);
    r.flops_is_lower_bound |= work.lower_bound && work.flops > 0;
  }

  const Trace& trace_;
  const HostTable& h_;
  OpNames names_;
  StepFinder step_of_;
  const Captures& captures_;
  const OpWorks& works_;
  std::vector<OpRow>& rows_;
  std::vector<uint32_t> row_of_;
  using StepTime = std::pair<const Step*, int64_t>;
  std::vector<std::vector<StepTime>> by_step_;   // by row; each thread that calls the op goes through the steps again
  std::vector<Open> open_;
};

std::vector<HostId> innermost_ranges(const Facts& facts) {
  const Trace& trace = facts.trace();
  const Captures& captures = facts.get<Captures>();
  const HostTable& h = trace.host;
  std::vector<HostId> of_activity(trace.activity.size());
  const auto range_around = [&](HostId call) {
    return trace.enclosing(call, [&](HostId at) {
      return h.kind[at.value] == HostKind::kOp || h.kind[at.value] == HostKind::kAnnotation;
    });
  };
  for (size_t c = 0; c < trace.launching.size(); ++c) {
    const HostId around = range_around(trace.launching[c]);
    for (uint32_t i = trace.launched_first[c]; i < trace.launched_first[c + 1]; ++i) {
      const ActivityId a = trace.launched[i];
      const HostId origin = captures.origin(trace, a);
      of_activity[a.value] = origin == trace.launching[c] ? around : range_around(origin);
    }
  }
  return of_activity;
}

}  // namespace

std::vector<OpRow> OpRow::rows(const Facts& facts) { return facts.get<Ops>().rows; }

Ops Ops::compute(const Facts& facts) {
  Ops ops;
  ops.of_activity = innermost_ranges(facts);
  if (!facts.trace().log_steps.empty()) return ops;   // ranges of a log are its lines, and no ops
  OpWalk walk(facts, ops.rows);
  walk.walk();
  walk.find_deviations(static_cast<int64_t>(facts.get<Steps>().measured().size()));
  std::sort(ops.rows.begin(), ops.rows.end(), [](const OpRow& a, const OpRow& b) {
    if (a.cpu_self_ns != b.cpu_self_ns) return a.cpu_self_ns > b.cpu_self_ns;
    // Execution traces have no times.
    const bool timed = a.cpu_total_ns != 0;
    if (timed != (b.cpu_total_ns != 0)) return timed;
    if (!timed && a.flops != b.flops) return a.flops > b.flops;
    if (!timed && a.calls != b.calls) return a.calls > b.calls;
    return a.text != b.text ? a.text < b.text : a.annotation < b.annotation;
  });
  return ops;
}

}  // namespace profgpu
