// Which rows there are, how they nest and what is left out follow torch/autograd/profiler_util.py of PyTorch 2.13
// (_filter_name, _rewrite_name, _populate_cpu_children, _remove_dup_nodes, key_averages). Python frames, which
// key_averages counts as rows since with_stack records them, are left out here: an op's own time keeps its meaning
// whether or not stacks were recorded.
//
// One walk each: nesting, folding, self times, sums. Budget: 40 ns a host row.
#include "analyse/ops.h"

#include <algorithm>

#include "analyse/steps.h"

namespace profgpu {
namespace {

constexpr uint32_t kNoParent = HostId::kNone;
constexpr std::string_view kStepPrefix = "ProfilerStep#";
constexpr std::string_view kStepRow = "ProfilerStep*";

bool is_row_kind(HostKind kind) { return kind != HostKind::kPython && kind != HostKind::kOverhead; }

// Ops of the profiler's own that key_averages leaves out, so that their parents keep that time as theirs.
bool is_left_out(std::string_view name) {
  return name == "[memory]" || name == "[OutOfMemory]" || name == "profiler::_record_function_enter" ||
         name == "profiler::_record_function_enter_new" || name == "profiler::_record_function_exit" ||
         name == "aten::is_leaf" || name == "aten::output_nr" || name == "aten::_version";
}

// Every string of the trace once: the name that its row is kept under, or none.
class OpNames {
 public:
  explicit OpNames(const Trace& trace) : trace_(trace), name_(trace.strings.size(), kUnknown) {}

  /// The string that stands for all that share its row; invalid if it has no row.
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

struct Tree {
  std::vector<uint32_t> name;      ///< by host row; none: no row
  std::vector<uint32_t> parent;    ///< the row that keeps a child's time; none: outermost
  std::vector<uint32_t> kept;      ///< the row that this one is folded into; itself if it stands
};

// Ranges of a thread nest by time alone; one that outlasts what it started in has no parent there.
Tree nested(const Trace& trace, OpNames& names) {
  const HostTable& h = trace.host;
  Tree tree;
  tree.name.assign(h.size(), kNoParent);
  tree.parent.assign(h.size(), kNoParent);
  tree.kept.resize(h.size());
  std::vector<uint32_t> children(h.size()), open;
  for (const Thread& thread : trace.threads) {
    open.clear();
    for (uint32_t i = thread.begin.value; i < thread.end.value; ++i) {
      if (is_row_kind(h.kind[i])) tree.name[i] = names.of(i).value;
      if (tree.name[i] == kNoParent) continue;
      const int64_t start = h.start_ns[i], end = h.end_ns(HostId(i));
      while (!open.empty()) {
        const int64_t outer = h.end_ns(HostId(open.back()));
        if (start < outer && end <= outer) break;
        open.pop_back();
      }
      if (!open.empty()) ++children[tree.parent[i] = open.back()];
      open.push_back(i);
    }
  }
  // An only child of its parent's name is the same call recorded twice. Parents come first, so theirs is settled.
  for (uint32_t i = 0; i < h.size(); ++i) {
    tree.kept[i] = i;
    if (tree.parent[i] == kNoParent) continue;
    const uint32_t parent = tree.parent[i] = tree.kept[tree.parent[i]];
    if (tree.name[parent] != tree.name[i] || children[parent] != 1) continue;
    tree.kept[i] = parent;
    children[parent] = children[i];
  }
  return tree;
}

// The innermost op around a launching call; where there is none, the innermost annotation.
uint32_t owner(const HostTable& h, const Tree& tree, uint32_t call) {
  uint32_t annotation = kNoParent;
  for (uint32_t at = call; at != kNoParent; at = tree.parent[at]) {
    if (h.kind[at] == HostKind::kOp) return at;
    if (h.kind[at] == HostKind::kAnnotation && annotation == kNoParent) annotation = at;
  }
  return annotation;
}

std::vector<HostId> innermost_ranges(const Trace& trace) {
  const HostTable& h = trace.host;
  std::vector<HostId> of_activity(trace.activity.size());
  for (size_t c = 0; c < trace.launching.size(); ++c) {
    HostId at = trace.launching[c];
    while (at.valid() && h.kind[at.value] != HostKind::kOp && h.kind[at.value] != HostKind::kAnnotation)
      at = h.parent[at.value];
    for (uint32_t i = trace.launched_first[c]; i < trace.launched_first[c + 1]; ++i)
      of_activity[trace.launched[i].value] = at;
  }
  return of_activity;
}

struct Times {
  std::vector<int64_t> self, device, device_self;
};

Times times(const Trace& trace, const Tree& tree) {
  const HostTable& h = trace.host;
  Times t{h.duration_ns, std::vector<int64_t>(h.size()), std::vector<int64_t>(h.size())};
  const auto stands = [&](uint32_t i) { return tree.name[i] != kNoParent && tree.kept[i] == i; };
  for (uint32_t i = 0; i < h.size(); ++i)
    if (stands(i) && tree.parent[i] != kNoParent) t.self[tree.parent[i]] -= h.duration_ns[i];
  for (size_t c = 0; c < trace.launching.size(); ++c) {
    const uint32_t op = owner(h, tree, trace.launching[c].value);
    if (op == kNoParent) continue;
    for (uint32_t i = trace.launched_first[c]; i < trace.launched_first[c + 1]; ++i)
      t.device_self[tree.kept[op]] += trace.activity.duration_ns[trace.launched[i].value];
  }
  // Children come after their parents: a walk from the end sees each range's total before adding it to its parent.
  for (uint32_t i = static_cast<uint32_t>(h.size()); i-- > 0;) {
    if (!stands(i)) continue;
    t.device[i] += t.device_self[i];
    if (tree.parent[i] != kNoParent) t.device[tree.parent[i]] += t.device[i];
  }
  return t;
}

}  // namespace

std::vector<OpRow> OpRow::rows(const Facts& facts) { return facts.get<Ops>().rows; }

Ops Ops::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  const HostTable& h = trace.host;
  OpNames names(trace);
  const Tree tree = nested(trace, names);
  const Times t = times(trace, tree);
  Ops ops;
  ops.of_activity = innermost_ranges(trace);
  StepFinder step_of(facts.get<Steps>());
  // Annotations are rows of their own even where an op has the same name.
  std::vector<uint32_t> row_of(trace.strings.size() * 2, kNoParent);
  for (uint32_t i = 0; i < h.size(); ++i) {
    if (tree.name[i] == kNoParent || tree.kept[i] != i) continue;
    const bool annotation = h.kind[i] == HostKind::kAnnotation;
    uint32_t& row = row_of[size_t{tree.name[i]} * 2 + annotation];
    if (row == kNoParent) {
      row = static_cast<uint32_t>(ops.rows.size());
      OpRow& fresh = ops.rows.emplace_back();
      fresh.name.value = tree.name[i];
      fresh.text = names.text(fresh.name);
      fresh.annotation = annotation;
    }
    OpRow& r = ops.rows[row];
    ++r.calls;
    r.cpu_total_ns += h.duration_ns[i];
    r.cpu_self_ns += t.self[i];
    r.device_total_ns += t.device[i];
    r.device_self_ns += t.device_self[i];
    if (step_of(h.start_ns[i]) >= 0) {
      ++r.measured_calls;
      r.measured_self_ns += t.self[i];
    }
    if (h.args[i].valid()) r.flops += trace.op_args[h.args[i].value].flops;
  }
  std::sort(ops.rows.begin(), ops.rows.end(), [](const OpRow& a, const OpRow& b) {
    if (a.cpu_self_ns != b.cpu_self_ns) return a.cpu_self_ns > b.cpu_self_ns;
    return a.text != b.text ? a.text < b.text : a.annotation < b.annotation;
  });
  return ops;
}

}  // namespace profgpu
