#include "analyse/rank/page.h"

#include <algorithm>
#include <functional>
#include <span>
#include <unordered_map>

#include "analyse/rank/captures.h"
#include "analyse/rank/steps.h"
#include "analyse/rank/timeline.h"

namespace profgpu {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

struct Node {
  uint32_t parent = kNone;
  StringId name;
  uint8_t category = 0;   // PageCategory
  int64_t total_ns = 0, self_ns = 0, device_ns = 0, calls = 0;
};

/// Names of rows; all steps share one.
class RowNames {
 public:
  explicit RowNames(const Facts& facts) : trace_(facts.trace()) {
    for (const Step& s : facts.get<Steps>().steps)
      if (s.range.valid()) steps_.push_back(s.range);
    std::sort(steps_.begin(), steps_.end());
  }
  [[nodiscard]] bool is_step(HostId row) const { return std::binary_search(steps_.begin(), steps_.end(), row); }
  [[nodiscard]] StringId of(HostId row) const {
    return is_step(row) ? trace_.host.name[steps_.front().value] : trace_.host.name[row.value];
  }
  [[nodiscard]] bool is_step_name(StringId name) const {
    return !steps_.empty() && name == trace_.host.name[steps_.front().value];
  }

 private:
  const Trace& trace_;
  std::vector<HostId> steps_;
};

// Activities by the thread that launched them, or captured the call that they replay.
std::vector<std::vector<ActivityId>> launched_by_thread(const Facts& facts) {
  const Trace& trace = facts.trace();
  const Captures& captures = facts.get<Captures>();
  std::vector<std::vector<ActivityId>> all(trace.threads.size());
  for (const ActivityId a : trace.launched)
    all[trace.host.thread[captures.origin(trace, a).value].value].push_back(a);
  return all;
}

// Parents come before their children, in rows and so in nodes. What a call launched hangs below it.
std::vector<Node> nodes_of(const Facts& facts, const Thread& thread, const RowNames& names,
                           const std::vector<ActivityId>& launched) {
  const Trace& trace = facts.trace();
  const HostTable& host = trace.host;
  std::vector<Node> nodes;
  std::vector<uint32_t> node_of(thread.end.value - thread.begin.value);
  std::unordered_map<uint64_t, uint32_t> known;   // by parent and name
  for (uint32_t i = thread.begin.value; i < thread.end.value; ++i) {
    const HostId caller = host.parent[i];
    const uint32_t parent = caller.valid() ? node_of[caller.value - thread.begin.value] : kNone;
    const StringId name = names.of(HostId(size_t{i}));
    const auto [it, added] =
        known.try_emplace(uint64_t{parent} << 32 | name.value, static_cast<uint32_t>(nodes.size()));
    if (added) nodes.push_back({parent, name, PageCategory::of(host.kind[i])});
    node_of[i - thread.begin.value] = it->second;
    Node& node = nodes[it->second];
    node.total_ns += host.duration_ns[i];
    node.self_ns += host.duration_ns[i];
    ++node.calls;
    if (parent != kNone) nodes[parent].self_ns -= host.duration_ns[i];
  }
  known.clear();
  for (const ActivityId a : launched) {
    const uint32_t call = node_of[facts.get<Captures>().origin(trace, a).value - thread.begin.value];
    const StringId name = trace.activity.name[a.value];
    const auto [it, added] = known.try_emplace(uint64_t{call} << 32 | name.value, static_cast<uint32_t>(nodes.size()));
    if (added) nodes.push_back({call, name, activity_category(facts, a)});
    nodes[it->second].device_ns += trace.activity.duration_ns[a.value];
    ++nodes[it->second].calls;
  }
  for (size_t n = nodes.size(); n-- > 0;) {
    nodes[n].self_ns = std::max<int64_t>(nodes[n].self_ns, 0);   // negative if ranges overlap without nesting
    if (nodes[n].parent != kNone) nodes[nodes[n].parent].device_ns += nodes[n].device_ns;
  }
  return nodes;
}

// Nodes with the largest weight are kept. A child never weighs more than its parent.
int64_t weight(const Node& n) { return std::max(n.total_ns, n.device_ns); }

int64_t least_weight(const std::vector<Node>& nodes, size_t most) {
  if (nodes.size() <= most) return 0;
  std::vector<int64_t> weights;
  for (const Node& n : nodes) weights.push_back(weight(n));
  const auto nth = weights.begin() + static_cast<ptrdiff_t>(most);
  std::nth_element(weights.begin(), nth, weights.end(), std::greater<>());
  return *nth + 1;
}

class FlameWriter {
 public:
  FlameWriter(PageStrings& strings, const Trace& trace, const RowNames& names)
      : strings_(strings), trace_(trace), names_(names) {}

  PageFlame write(const std::vector<Node>& nodes, size_t most) {
    const int64_t least = least_weight(nodes, most);
    std::vector<uint32_t> index(nodes.size(), kNone);   // in the flame; kNone: below a joined node
    std::unordered_map<uint32_t, uint32_t> joined;      // 1 + parent's index to the index of its "…"
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Node& n = nodes[i];
      if (n.parent != kNone && index[n.parent] == kNone) continue;
      const uint32_t parent = n.parent == kNone ? 0 : index[n.parent] + 1;
      if (weight(n) >= least) {
        index[i] = push(parent, text(n.name), n);
        continue;
      }
      const auto [it, added] = joined.try_emplace(parent, 0);
      if (added) it->second = push(parent, strings_.of("…"), Node{kNone, {}, n.category});
      flame_.total_ns[it->second] += n.total_ns;
      flame_.self_ns[it->second] += n.total_ns;
      flame_.device_ns[it->second] += n.device_ns;
      flame_.calls[it->second] += n.calls;
    }
    return std::move(flame_);
  }

 private:
  uint32_t text(StringId name) {
    if (!names_.is_step_name(name)) return strings_.of(trace_.strings[name]);
    return strings_.of(trace_.strings[name].starts_with("ProfilerStep#") ? "ProfilerStep*" : "step");
  }
  uint32_t push(uint32_t parent, uint32_t name, const Node& n) {
    flame_.parent.push_back(parent);
    flame_.name.push_back(name);
    flame_.category.push_back(n.category);
    flame_.total_ns.push_back(n.total_ns);
    flame_.self_ns.push_back(n.self_ns);
    flame_.device_ns.push_back(n.device_ns);
    flame_.calls.push_back(n.calls);
    return static_cast<uint32_t>(flame_.parent.size() - 1);
  }

  PageStrings& strings_;
  const Trace& trace_;
  const RowNames& names_;
  PageFlame flame_;
};

int64_t outermost_ns(const PageFlame& flame) {
  int64_t sum = 0;
  for (size_t i = 0; i < flame.parent.size(); ++i)
    if (flame.parent[i] == 0) sum += flame.total_ns[i];
  return sum;
}

}  // namespace

std::vector<PageFlame> flames(const Facts& facts, PageStrings& strings, size_t most_nodes) {
  const Trace& trace = facts.trace();
  const RowNames names(facts);
  const std::vector<std::vector<ActivityId>> launched = launched_by_thread(facts);
  const ThreadId first = facts.get<Steps>().thread;
  std::vector<PageFlame> all;
  size_t leading = 0;   // 1: the step's thread has a tree, which stays first
  for (size_t t = 0; t < trace.threads.size(); ++t) {
    const Thread& thread = trace.threads[t];
    if (thread.begin == thread.end) continue;
    PageFlame flame = FlameWriter(strings, trace, names).write(nodes_of(facts, thread, names, launched[t]), most_nodes);
    flame.title = thread_title(thread);
    const bool leads = first.valid() && first.value == t;
    all.insert(leads ? all.begin() : all.end(), std::move(flame));
    leading += leads;
  }
  std::ranges::stable_sort(std::span(all).subspan(leading), std::greater(), outermost_ns);
  return all;
}

}  // namespace profgpu
