#include "analyse/memory/failed_passes.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

namespace profgpu {
namespace {

constexpr double kAlike = 0.9;  // of the bytes of a failed pass: made in stacks that the step has as well

uint32_t next_allocation(const AllocationEvents& events, const MemoryHistory& history, uint32_t row) {
  while (row < history.end && events.action(row) != AllocationAction::kAlloc) ++row;
  return row;
}

// What allocations of a pass are, stack by stack in the order in which they are made.
class PassSizes {
 public:
  void add(uint32_t stack, int64_t bytes) { sizes_[stack].push_back(bytes); }
  /// Of the n-th of a stack; none: there are fewer.
  [[nodiscard]] std::optional<int64_t> of(uint32_t stack, size_t n) const {
    const auto at = sizes_.find(stack);
    return at != sizes_.end() && n < at->second.size() ? std::optional(at->second[n]) : std::nullopt;
  }

 private:
  std::unordered_map<uint32_t, std::vector<int64_t>> sizes_;
};

class Comparison {
 public:
  explicit Comparison(const PassSizes& step) : step_(step) {}
  void add(uint32_t stack, int64_t bytes) {
    all_ += static_cast<double>(bytes);
    const auto same = step_.of(stack, counts_[stack]++);
    if (!same || *same <= 0) return;
    failed_ += static_cast<double>(bytes), complete_ += static_cast<double>(*same);
  }
  [[nodiscard]] std::optional<double> scale() const {
    return complete_ > 0 && failed_ >= kAlike * all_ ? std::optional(failed_ / complete_) : std::nullopt;
  }

 private:
  const PassSizes& step_;
  std::unordered_map<uint32_t, size_t> counts_;
  double all_ = 0, failed_ = 0, complete_ = 0;
};

}  // namespace

std::vector<FailedPass> failed_passes(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                      const MemoryPhases& phases) {
  std::vector<FailedPass> passes;
  for (uint32_t row = history.first; row < history.end; ++row) {
    if (snapshot.events.action(row) != AllocationAction::kOom) continue;
    const auto& ends = phases.step_ends();
    const auto after = std::ranges::upper_bound(ends, row);
    uint32_t begin = after == ends.begin() ? history.first : *std::prev(after);
    if (!passes.empty()) begin = std::max(begin, passes.back().end);
    passes.push_back({std::min(begin, row), row, next_allocation(snapshot.events, history, row)});
  }
  return passes;
}

int64_t steps_after(const MemoryPhases& phases, uint32_t row) {
  const auto& begins = phases.backward_begins();
  const auto backward = std::ranges::upper_bound(begins, row);
  if (backward == begins.end()) return 0;
  const auto& ends = phases.step_ends();
  const auto first = std::ranges::upper_bound(ends, *backward);
  return (ends.end() - first) + (phases.is_optimizing() ? 1 : 0);
}

std::optional<ReferenceStep> reference_step(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                            const MemoryPhases& phases, const FailedPass& failed,
                                            const std::vector<bool>& grows) {
  const auto& ends = phases.step_ends();
  const auto after = std::ranges::upper_bound(ends, failed.failed);
  if (after == ends.begin()) return std::nullopt;
  ReferenceStep step;
  step.end = *std::prev(after);
  step.begin = std::prev(after) == ends.begin() ? history.first : *std::prev(after, 2);
  PassSizes sizes;
  for (size_t i = 0; i < history.allocations.size(); ++i) {
    const Allocation& a = history.allocations[i];
    if (grows[i] && a.made != Allocation::kOutside && a.made >= step.begin && a.made < step.end)
      sizes.add(a.stack, a.bytes);
  }
  Comparison comparison(sizes);
  for (size_t i = 0; i < history.allocations.size(); ++i) {
    const Allocation& a = history.allocations[i];
    if (grows[i] && a.made != Allocation::kOutside && a.made >= failed.begin && a.made < failed.failed)
      comparison.add(a.stack, a.bytes);
  }
  comparison.add(snapshot.events.stack(failed.failed), snapshot.events.bytes(failed.failed));
  const auto scale = comparison.scale();
  if (!scale) return std::nullopt;
  step.scale = *scale;
  return step;
}

}  // namespace profgpu
