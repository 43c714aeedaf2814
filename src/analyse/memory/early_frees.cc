#include "analyse/memory/early_frees.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "analyse/memory/level_courses.h"
#include "analyse/memory/memory_growth.h"
#include "analyse/memory/reference_cycles.h"

namespace profgpu {
namespace {

constexpr size_t kMaxEarlyFrees = 10;
constexpr double kWorthFreeing = 0.01;  // of the peak
constexpr int64_t kMinGraphLines = 3;   // what a graph holds of one forward pass is made at several

/// Rows [from, to).
struct Span {
  uint32_t from = 0, to = 0;
};

// From each step's end to the next backward pass.
std::vector<Span> times_without_gradients(const MemoryPhases& phases, uint32_t end) {
  std::vector<Span> spans;
  for (const uint32_t from : phases.step_ends()) {
    const auto& begins = phases.backward_begins();
    const auto next = std::ranges::lower_bound(begins, from);
    spans.push_back({from, next == begins.end() ? end : *next});
  }
  return spans;
}

class Idle {
 public:
  Idle(const MemorySnapshot& snapshot, const MemoryHistory& history, const StackBook& stacks,
       const MemoryPhases& phases)
      : history_(history),
        stacks_(stacks),
        phases_(phases),
        without_(times_without_gradients(phases, history.end)),
        forwards_(forward_begins(snapshot, history, stacks)) {}

  /// When nothing needs it, in order.
  [[nodiscard]] std::vector<Span> of(const Allocation& a, MemoryCategory category) const {
    if (category == MemoryCategory::kGradient) return of_gradient(a);
    const MemoryRole role = stacks_.of(a.stack).role;
    const bool of_forward = role == MemoryRole::kForward || role == MemoryRole::kProgram;
    const bool goes = category == MemoryCategory::kActivation || category == MemoryCategory::kTemporary;
    if (!goes || !of_forward || a.made == Allocation::kOutside || a.freed == Allocation::kOutside) return {};
    // What a program makes between steps, such as the next batch, is for the pass that comes.
    if (phases_.at(a.made) != MemoryPhase::kForward) return {};
    const auto step = phases_.next_optimizer(a.made);
    if (!step || a.freed <= *step) return {};
    return {{role == MemoryRole::kForward ? end_of_pass(a, *step) : *step, a.freed}};
  }

 private:
  // A pass is over with the step, or where the next one begins and no backward pass came between.
  [[nodiscard]] uint32_t end_of_pass(const Allocation& a, uint32_t step) const {
    const auto next = std::ranges::upper_bound(forwards_, a.made);
    const bool alone = next != forwards_.end() && *next < step &&
                       phases_.backward_passes(*next) == phases_.backward_passes(a.made);
    return alone ? *next : step;
  }
  [[nodiscard]] std::vector<Span> of_gradient(const Allocation& a) const {
    const uint32_t made = a.made == Allocation::kOutside ? history_.first : a.made;
    const uint32_t freed = a.freed == Allocation::kOutside ? history_.end : a.freed;
    std::vector<Span> spans;
    const auto first = std::ranges::lower_bound(without_, made, {}, &Span::from);
    for (auto span = first; span != without_.end() && span->from < freed; ++span)
      spans.push_back({span->from, std::min(span->to, freed)});
    return spans;
  }

  const MemoryHistory& history_;
  const StackBook& stacks_;
  const MemoryPhases& phases_;
  std::vector<Span> without_;
  std::vector<uint32_t> forwards_;   // rows
};

struct Group {
  std::vector<size_t> allocations;
  int64_t bytes = 0;  // at the peak
  int64_t blocks = 0;
  int64_t lines = 0;  // of a graph

  void add(const Group& other) {
    bytes += other.bytes, blocks += other.blocks;
    allocations.insert(allocations.end(), other.allocations.begin(), other.allocations.end());
  }
};

enum class Kind : uint8_t { kLine, kGraph, kGradients };
using Groups = std::map<std::pair<Kind, MemoryLine>, Group>;

// Lines of forward passes that outlive their step together, as a graph that something keeps does.
Groups with_graph(const MemorySnapshot& snapshot, const MemoryHistory& history, const StackBook& stacks,
                  Groups by_line) {
  const auto of_graph = [&](const Groups::value_type& line) {
    const auto& [key, group] = line;
    const auto is_forwards = [&](size_t i) {
      const Allocation& a = history.allocations[i];
      return stacks.of(a.stack).role == MemoryRole::kForward && !is_collected(snapshot, stacks, a);
    };
    return key.first == Kind::kLine && group.bytes > 0 && std::ranges::all_of(group.allocations, is_forwards);
  };
  if (std::ranges::count_if(by_line, of_graph) < kMinGraphLines) return by_line;
  Group graph;
  for (auto line = by_line.begin(); line != by_line.end();) {
    if (!of_graph(*line)) {
      ++line;
      continue;
    }
    graph.add(line->second), ++graph.lines;
    line = by_line.erase(line);
  }
  by_line[{Kind::kGraph, {}}] = std::move(graph);
  return by_line;
}

}  // namespace

std::vector<EarlyFreeRow> early_frees(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                      const StackBook& stacks, const MemoryPhases& phases,
                                      const std::vector<CategoryOf>& categories) {
  if (!history.peak_row || phases.step_ends().empty()) return {};
  const Idle idle(snapshot, history, stacks, phases);
  const uint32_t peak = *history.peak_row;
  std::map<std::tuple<bool, uint32_t>, Group> groups;  // gradients are one, others by stack
  for (size_t i = 0; i < history.allocations.size(); ++i) {
    const bool gradient = categories[i].category == MemoryCategory::kGradient;
    const std::vector<Span> spans = idle.of(history.allocations[i], categories[i].category);
    if (spans.empty()) continue;
    Group& group = groups[{gradient, gradient ? 0 : history.allocations[i].stack}];
    group.allocations.push_back(i);
    if (std::ranges::any_of(spans, [&](Span s) { return s.from <= peak && peak < s.to; }))
      group.bytes += history.allocations[i].bytes, ++group.blocks;
  }
  Groups by_line;
  for (auto& [key, group] : groups) {
    const auto& [gradient, stack] = key;
    const Kind kind = gradient ? Kind::kGradients : Kind::kLine;
    by_line[{kind, gradient ? MemoryLine{} : stacks.line(stack)}].add(group);
  }
  by_line = with_graph(snapshot, history, stacks, std::move(by_line));
  std::vector<EarlyFreeRow> rows;
  for (const auto& [key, group] : by_line) {
    if (static_cast<double>(group.bytes) < kWorthFreeing * static_cast<double>(history.peak_bytes)) continue;
    IdleBytes bytes(history);
    for (const size_t i : group.allocations)
      for (const Span s : idle.of(history.allocations[i], categories[i].category))
        bytes.add(s.from, s.to, history.allocations[i].bytes);
    EarlyFreeRow row;
    row.category = categories[group.allocations.front()].category;
    row.function = key.second.function, row.file = key.second.file, row.line = key.second.line;
    row.bytes = group.bytes;
    if (group.lines > 0) row.graph_lines = group.lines, row.graph_blocks = group.blocks;
    row.peak_bytes = bytes.peak_without(snapshot, history);
    row.saved_bytes = history.peak_bytes - row.peak_bytes;
    row.collected = std::ranges::any_of(
        group.allocations, [&](size_t i) { return is_collected(snapshot, stacks, history.allocations[i]); });
    rows.push_back(std::move(row));
  }
  std::ranges::stable_sort(rows, std::greater(), &EarlyFreeRow::saved_bytes);
  if (rows.size() > kMaxEarlyFrees) rows.resize(kMaxEarlyFrees);
  return rows;
}

}  // namespace profgpu
