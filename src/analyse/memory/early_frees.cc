#include "analyse/memory/early_frees.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "analyse/memory/level_courses.h"
#include "analyse/memory/reference_cycles.h"

namespace profgpu {
namespace {

constexpr size_t kMaxEarlyFrees = 10;
constexpr double kWorthFreeing = 0.01;  // of the peak

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
  Idle(const MemoryHistory& history, const StackBook& stacks, const MemoryPhases& phases)
      : history_(history), stacks_(stacks), phases_(phases), without_(times_without_gradients(phases, history.end)) {}

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
    return {{*step, a.freed}};
  }

 private:
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
};

struct Group {
  std::vector<size_t> allocations;
  int64_t bytes = 0;  // at the peak
};

}  // namespace

std::vector<EarlyFreeRow> early_frees(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                      const StackBook& stacks, const MemoryPhases& phases,
                                      const std::vector<CategoryOf>& categories) {
  if (!history.peak_row || phases.step_ends().empty()) return {};
  const Idle idle(history, stacks, phases);
  const uint32_t peak = *history.peak_row;
  std::map<std::tuple<bool, uint32_t>, Group> groups;  // gradients are one, others by stack
  for (size_t i = 0; i < history.allocations.size(); ++i) {
    const bool gradient = categories[i].category == MemoryCategory::kGradient;
    const std::vector<Span> spans = idle.of(history.allocations[i], categories[i].category);
    if (spans.empty()) continue;
    Group& group = groups[{gradient, gradient ? 0 : history.allocations[i].stack}];
    group.allocations.push_back(i);
    if (std::ranges::any_of(spans, [&](Span s) { return s.from <= peak && peak < s.to; }))
      group.bytes += history.allocations[i].bytes;
  }
  std::map<std::pair<bool, MemoryLine>, Group> by_line;
  for (auto& [key, group] : groups) {
    const auto& [gradient, stack] = key;
    Group& line = by_line[{gradient, gradient ? MemoryLine{} : stacks.line(stack)}];
    line.bytes += group.bytes;
    line.allocations.insert(line.allocations.end(), group.allocations.begin(), group.allocations.end());
  }
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
