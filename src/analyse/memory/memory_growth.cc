#include "analyse/memory/memory_growth.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "analyse/memory/reference_cycles.h"

namespace profgpu {
namespace {

constexpr size_t kMaxPoints = 200;  // pairs of them grow with the square

// Rows at which levels are compared: the ends of all steps but the first, thinned where there are many.
std::vector<uint32_t> compared_ends(std::vector<uint32_t> ends) {
  if (ends.size() < kMinGrowthSteps + 1) return {};
  ends.erase(ends.begin());
  std::vector<uint32_t> thinned;
  const size_t each = (ends.size() + kMaxPoints - 1) / kMaxPoints;
  for (size_t i = 0; i < ends.size(); i += each) thinned.push_back(ends[i]);
  return thinned;
}

struct HeldByStack {
  std::vector<int64_t> change;  // by place in the ends: what is more there than at the one before
  std::array<int64_t, kMemoryCategories> by_category{};
  int64_t bytes = 0, blocks = 0;
  bool collected = false;
};

struct Slope {
  double median = 0, low = 0, high = 0;
};

// Of levels at equal distances of `each` steps. The interval's ranks: Kendall's variance n (n - 1)(2n + 5) / 18.
Slope slope_of(const std::vector<int64_t>& levels, double each) {
  std::vector<double> slopes;
  for (size_t i = 0; i < levels.size(); ++i)
    for (size_t j = i + 1; j < levels.size(); ++j)
      slopes.push_back(static_cast<double>(levels[j] - levels[i]) / (static_cast<double>(j - i) * each));
  std::sort(slopes.begin(), slopes.end());
  const auto n = static_cast<double>(levels.size()), count = static_cast<double>(slopes.size());
  const double reach = 1.959964 * std::sqrt(n * (n - 1) * (2 * n + 5) / 18);
  const auto at = [&](double rank) { return slopes[static_cast<size_t>(std::clamp(rank, 0.0, count - 1))]; };
  const size_t half = slopes.size() / 2;
  const double median = slopes.size() % 2 == 1 ? slopes[half] : (slopes[half - 1] + slopes[half]) / 2;
  return {median, at(std::floor((count - reach) / 2)), at(std::ceil((count + reach) / 2))};
}

MemoryCategory most_of(const std::array<int64_t, kMemoryCategories>& bytes) {
  return static_cast<MemoryCategory>(std::max_element(bytes.begin(), bytes.end()) - bytes.begin());
}

// What no module's forward makes is no part of a model's graph. Without a backward pass there may be none at all.
GrowthCause cause_of(const StackFacts& stack, bool collected, bool has_graphs) {
  if (collected) return GrowthCause::kCycle;
  if (stack.role == MemoryRole::kForward) return has_graphs ? GrowthCause::kRetainedGraph : GrowthCause::kKept;
  return stack.role == MemoryRole::kProgram ? GrowthCause::kKept : GrowthCause::kUnknown;
}

// What a graph holds of one forward pass is made all over the model; results that a program collects, at a few lines.
constexpr int64_t kMinGraphStacks = 3, kGraphShare = 4;

bool keeps_graphs(const MemoryHistory& history, const StackBook& stacks, const std::vector<GrowingStack>& growing) {
  const auto is_forward = [&](uint32_t stack) { return stacks.of(stack).role == MemoryRole::kForward; };
  std::unordered_set<uint32_t> all;
  for (const Allocation& a : history.allocations)
    if (a.made != Allocation::kOutside && is_forward(a.stack)) all.insert(a.stack);
  const int64_t kept = std::ranges::count_if(growing, [&](const GrowingStack& g) { return is_forward(g.stack); });
  return kept >= kMinGraphStacks && kGraphShare * kept >= static_cast<int64_t>(all.size());
}

bool are_enough(const std::vector<uint32_t>& ends) { return ends.size() > kMinGrowthSteps; }

uint32_t outermost_forward(const MemorySnapshot& snapshot, const StackBook& stacks, uint32_t stack) {
  uint32_t outermost = UINT32_MAX;
  const auto [begin, end] = snapshot.stacks.frames_of(stack);
  for (const uint32_t* frame = begin; frame != end; ++frame)
    if (stacks.module_call(*frame) == ModuleCall::kPrograms) outermost = *frame;
  return outermost;
}

}  // namespace

std::vector<uint32_t> forward_begins(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                     const StackBook& stacks) {
  std::unordered_map<uint32_t, uint32_t> lines;  // by stack
  std::vector<uint32_t> begins;
  uint32_t first = UINT32_MAX, last = UINT32_MAX;
  for (const Allocation& a : history.allocations) {
    if (a.made == Allocation::kOutside || stacks.of(a.stack).role != MemoryRole::kForward) continue;
    const auto [line, fresh] = lines.try_emplace(a.stack);
    if (fresh) line->second = outermost_forward(snapshot, stacks, a.stack);
    if (line->second == UINT32_MAX) continue;
    if (first == UINT32_MAX) first = line->second;
    if (line->second == first && last != first) begins.push_back(a.made);
    last = line->second;
  }
  return begins;
}

std::string_view growth_cause_name(GrowthCause cause) {
  constexpr std::string_view kNames[] = {"unknown", "retained_graph", "reference_cycle", "kept_tensors"};
  return kNames[static_cast<size_t>(cause)];
}

GrowthSteps growth_steps(const MemorySnapshot& snapshot, const MemoryHistory& history, const StackBook& stacks,
                         const MemoryPhases& phases) {
  if (are_enough(phases.step_ends())) return {"step", phases.step_ends()};
  if (are_enough(phases.backward_begins())) return {"backward pass", phases.backward_begins()};
  if (phases.has_steps() || phases.all_backward_passes() > 0) return {};
  std::vector<uint32_t> rows = forward_begins(snapshot, history, stacks);
  if (!are_enough(rows)) return {};
  return {"forward pass", std::move(rows)};
}

namespace {

/// What one stack holds when each sequence begins.
struct CacheLevels {
  std::vector<int64_t> blocks, bytes;
};

// Of one stack's blocks, in the order in which they are made: a sequence begins where one is smaller than the last.
CacheLevels levels_at_begins(const MemoryHistory& history, const std::vector<size_t>& places) {
  std::vector<uint32_t> begins;
  for (size_t i = 1; i < places.size(); ++i)
    if (history.allocations[places[i]].bytes < history.allocations[places[i - 1]].bytes)
      begins.push_back(history.allocations[places[i]].made);
  CacheLevels levels{std::vector<int64_t>(begins.size()), std::vector<int64_t>(begins.size())};
  for (const size_t i : places) {
    const Allocation& a = history.allocations[i];
    const auto from = std::ranges::lower_bound(begins, a.made + 1) - begins.begin();
    const auto to = std::ranges::lower_bound(begins, a.freed) - begins.begin();   // kOutside: all
    for (auto at = from; at < to; ++at) {
      ++levels.blocks[static_cast<size_t>(at)];
      levels.bytes[static_cast<size_t>(at)] += a.bytes;
    }
  }
  return levels;
}

bool holds_something_of(const std::vector<size_t>& places, const MemoryHistory& history, const MemoryPhases& phases,
                        uint32_t step) {
  return std::ranges::any_of(places, [&](size_t i) { return phases.step(history.allocations[i].made) == step; });
}

}  // namespace

std::vector<GrowingStack> growing_caches_of_before(const MemoryHistory& history,
                                                   const std::vector<CategoryOf>& categories,
                                                   const StackBook& stacks) {
  std::unordered_map<uint32_t, std::vector<size_t>> by_stack;
  for (size_t i = 0; i < history.allocations.size(); ++i) {
    const Allocation& a = history.allocations[i];
    const bool cache = categories[i].category == MemoryCategory::kCache && stacks.of(a.stack).in_forward;
    if (cache && a.made != Allocation::kOutside && a.stack != MemoryStacks::kNone) by_stack[a.stack].push_back(i);
  }
  std::vector<GrowingStack> growing;
  for (const auto& [stack, places] : by_stack) {
    const CacheLevels levels = levels_at_begins(history, places);
    if (levels.blocks.size() <= kMinGrowthSteps || levels.blocks.size() > kMaxPoints) continue;
    // Sequences of a batch that take turns have as many blocks each time.
    if (slope_of(levels.blocks, 1).low <= 0) continue;
    const Slope slope = slope_of(levels.bytes, 1);
    if (slope.low <= 0) continue;
    growing.push_back({stack, MemoryCategory::kCache, GrowthCause::kKept, slope.median, slope.low, slope.high,
                       levels.bytes.back(), levels.blocks.back()});
  }
  std::ranges::sort(growing, [](const GrowingStack& a, const GrowingStack& b) {
    return a.bytes_per_step != b.bytes_per_step ? a.bytes_per_step > b.bytes_per_step : a.stack < b.stack;
  });
  return growing;
}

std::optional<KeptByStack> kept_of_each_step(const MemoryHistory& history, const std::vector<CategoryOf>& categories,
                                             const StackBook& stacks, const MemoryPhases& phases) {
  constexpr int64_t kSmallPart = 100;   // of the peak
  constexpr uint32_t kFewSteps = 3;     // fewer tell nothing
  const size_t ends = phases.step_ends().size();
  const auto steps = static_cast<uint32_t>(ends + (phases.is_optimizing() ? 1 : 0));
  if (steps < kFewSteps || ends > kMinGrowthSteps || phases.all_backward_passes() > kMinGrowthSteps) return std::nullopt;
  std::unordered_map<uint32_t, std::vector<size_t>> kept;
  std::unordered_set<uint32_t> frees;
  for (size_t i = 0; i < history.allocations.size(); ++i) {
    const Allocation& a = history.allocations[i];
    const MemoryRole role = stacks.of(a.stack).role;
    const bool known = role == MemoryRole::kProgram || role == MemoryRole::kForward;
    if (!known || a.made == Allocation::kOutside || categories[i].category == MemoryCategory::kCache) continue;
    if (a.freed == Allocation::kOutside) kept[a.stack].push_back(i);
    else frees.insert(a.stack);
  }
  KeptByStack most;
  for (const auto& [stack, places] : kept) {
    if (frees.contains(stack)) continue;
    uint32_t of = 0;   // with what is made after the last optimizer's step
    for (uint32_t step = 0; step <= steps; ++step) of += holds_something_of(places, history, phases, step) ? 1 : 0;
    if (of < kFewSteps || of + 1 < steps) continue;
    int64_t bytes = 0;
    for (const size_t i : places) bytes += history.allocations[i].bytes;
    if (bytes > most.bytes || (bytes == most.bytes && stack < most.stack)) most = {stack, bytes, of};
  }
  return kSmallPart * most.bytes >= history.peak_bytes && most.bytes > 0 ? std::optional(most) : std::nullopt;
}

std::vector<GrowingStack> growing_stacks(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                         const std::vector<CategoryOf>& categories, const StackBook& stacks,
                                         const GrowthSteps& steps) {
  const std::vector<uint32_t> ends = compared_ends(steps.rows);
  if (ends.empty()) return {};
  std::unordered_map<uint32_t, HeldByStack> by_stack;
  for (size_t i = 0; i < history.allocations.size(); ++i) {
    const Allocation& a = history.allocations[i];
    if (a.made == Allocation::kOutside || a.stack == MemoryStacks::kNone) continue;
    // Keys and values of the tokens so far grow with each one that is generated; see growing_caches_of_before().
    if (categories[i].category == MemoryCategory::kCache) continue;
    const auto from = std::lower_bound(ends.begin(), ends.end(), a.made + 1) - ends.begin();
    const auto to = std::lower_bound(ends.begin(), ends.end(), a.freed) - ends.begin();  // kOutside: all
    const bool collected = is_collected(snapshot, stacks, a);
    if (from >= to && !collected) continue;
    HeldByStack& held = by_stack[a.stack];
    held.collected |= collected;
    held.change.resize(ends.size() + 1);
    held.change[static_cast<size_t>(from)] += a.bytes;
    held.change[static_cast<size_t>(to)] -= a.bytes;
    held.by_category[static_cast<size_t>(categories[i].category)] += a.bytes;
    if (static_cast<size_t>(to) == ends.size()) held.bytes += a.bytes, ++held.blocks;
  }
  const double each = static_cast<double>(steps.rows.size() - 1) / static_cast<double>(ends.size());
  std::vector<GrowingStack> growing;
  for (auto& [stack, held] : by_stack) {
    std::vector<int64_t> levels;
    int64_t level = 0;
    for (size_t i = 0; i < ends.size(); ++i) levels.push_back(level += held.change[i]);
    const Slope slope = slope_of(levels, std::max(each, 1.0));
    if (slope.low <= 0) continue;
    growing.push_back({stack, most_of(held.by_category),
                       cause_of(stacks.of(stack), held.collected, steps.per != "forward pass"), slope.median, slope.low,
                       slope.high, held.bytes, held.blocks});
  }
  if (steps.per == "forward pass" && keeps_graphs(history, stacks, growing))
    for (GrowingStack& g : growing)
      if (g.cause == GrowthCause::kKept) g.cause = cause_of(stacks.of(g.stack), false, true);
  std::sort(growing.begin(), growing.end(), [](const GrowingStack& a, const GrowingStack& b) {
    return a.bytes_per_step != b.bytes_per_step ? a.bytes_per_step > b.bytes_per_step : a.stack < b.stack;
  });
  return growing;
}

}  // namespace profgpu
