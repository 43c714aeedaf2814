#include "analyse/memory/memory_phases.h"

#include <algorithm>
#include <utility>

namespace profgpu {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

// A range in which an optimizer steps, in rows [begin, end).
struct StepRange {
  uint32_t begin = 0, end = kNone;
  uint32_t computed = kNone;  // the last allocation in it of a forward or backward pass; kNone: it computes none

  [[nodiscard]] bool contains(uint32_t row) const { return begin <= row && row < end; }
  [[nodiscard]] bool computes() const { return computed != kNone; }
};

using TimeRange = std::pair<int64_t, int64_t>;

// When an optimizer steps, by the ranges that PyTorch marks itself, in order of time.
std::vector<TimeRange> optimizer_times(const MemorySnapshot& snapshot, int32_t device) {
  std::vector<TimeRange> times;
  for (const MemoryAnnotation& a : snapshot.annotations) {
    if (a.device != device || !snapshot.strings[a.name].starts_with("Optimizer.step#")) continue;
    if (a.start)
      times.emplace_back(a.time_us, INT64_MAX);
    else if (!times.empty() && times.back().second == INT64_MAX)
      times.back().second = a.time_us;
  }
  return times;
}

int64_t first_time(const AllocationEvents& events, const MemoryHistory& history) {
  for (uint32_t row = history.first; row < history.end; ++row)
    if (events.time_us(row) != AllocationEvent::kNoTime) return events.time_us(row);
  return 0;
}

// Ranges reach further back than a ring of events.
std::vector<StepRange> step_ranges(const MemorySnapshot& snapshot, const MemoryHistory& history) {
  const std::vector<TimeRange> times = optimizer_times(snapshot, history.device);
  const auto is_over = [first = first_time(snapshot.events, history)](const TimeRange& t) { return t.second < first; };
  auto next = std::find_if_not(times.begin(), times.end(), is_over);
  std::vector<StepRange> ranges;
  for (uint32_t row = history.first; row < history.end; ++row) {
    const int64_t time_us = snapshot.events.time_us(row);
    if (time_us == AllocationEvent::kNoTime) continue;
    for (; next != times.end() && next->first <= time_us; ++next) {
      if (!ranges.empty() && ranges.back().end == kNone) ranges.back().end = row;
      ranges.push_back({row});
    }
    if (ranges.empty() || ranges.back().end != kNone || std::prev(next)->second >= time_us) continue;
    ranges.back().end = row;
  }
  return ranges;
}

MemoryPhase phase_of(MemoryRole role) {
  switch (role) {
    case MemoryRole::kForward:
    case MemoryRole::kProgram:
      return MemoryPhase::kForward;
    case MemoryRole::kBackward:
    case MemoryRole::kGradient:
      return MemoryPhase::kBackward;
    case MemoryRole::kOptimizer:
      return MemoryPhase::kOptimizer;
    default:
      return MemoryPhase::kUnknown;
  }
}

uint32_t count_up_to(const std::vector<uint32_t>& rows, uint32_t row) {
  return static_cast<uint32_t>(std::upper_bound(rows.begin(), rows.end(), row) - rows.begin());
}

}  // namespace

std::string_view memory_phase_name(MemoryPhase phase) {
  constexpr std::string_view kNames[] = {"unknown", "forward", "backward", "optimizer"};
  return kNames[static_cast<size_t>(phase)];
}

// What each allocation belongs to.
class MemoryPhases::Reading {
 public:
  Reading(const MemorySnapshot& snapshot, const MemoryHistory& history, const StackBook& stacks)
      : events_(snapshot.events), stacks_(stacks), ranges_(step_ranges(snapshot, history)) {
    empty_is_backward_ = !stacks.empty() && !stacks.has_native_frames();
    auto range = ranges_.begin();
    for (uint32_t row = history.first; row < history.end && range != ranges_.end(); ++row) {
      while (range != ranges_.end() && range->end <= row) ++range;
      if (range != ranges_.end() && range->contains(row) && is_computation(row)) range->computed = row;
    }
    next_ = ranges_.begin();
  }

  // To be called for each row in turn: whether an optimizer's range begins, or has computed its loss.
  [[nodiscard]] bool begins_step(uint32_t row) {
    bool begins = false;
    for (; next_ != ranges_.end() && next_->begin <= row; ++next_) {
      if (next_->computes() && next_->end > row) break;
      begins = true;
    }
    return begins;
  }
  [[nodiscard]] MemoryPhase phase(uint32_t row) const {
    const uint32_t stack = events_.stack(row);
    if (is_backward(stack)) return MemoryPhase::kBackward;
    const StackFacts& facts = stacks_.of(stack);
    const MemoryPhase phase = facts.clips && facts.role == MemoryRole::kProgram ? MemoryPhase::kOptimizer
                                                                                : phase_of(facts.role);
    const auto after = std::ranges::upper_bound(ranges_, row, {}, &StepRange::begin);
    if (after == ranges_.begin() || !std::prev(after)->contains(row)) return phase;
    const StepRange& range = *std::prev(after);
    if (!range.computes() || row > range.computed) return MemoryPhase::kOptimizer;
    return phase == MemoryPhase::kOptimizer ? MemoryPhase::kUnknown : phase;  // between two losses that it computes
  }
  [[nodiscard]] bool zeroes_gradients(uint32_t row) const {
    const StackFacts& stack = stacks_.of(events_.stack(row));
    return stack.zeroes_gradients && !stack.in_backward && events_.action(row) == AllocationAction::kFreeRequested;
  }
  [[nodiscard]] bool steps_in_backward(uint32_t row) const {
    const StackFacts& stack = stacks_.of(events_.stack(row));
    return stack.in_backward && (stack.role == MemoryRole::kOptimizer || stack.zeroes_gradients);
  }

 private:
  // Autograd's threads have no Python frames: where no others are recorded, an empty stack is theirs.
  [[nodiscard]] bool is_backward(uint32_t stack) const {
    if (stack == MemoryStacks::kNone) return empty_is_backward_;
    return stacks_.of(stack).in_backward && phase_of(stacks_.of(stack).role) != MemoryPhase::kUnknown;
  }
  [[nodiscard]] bool is_computation(uint32_t row) const {
    const uint32_t stack = events_.stack(row);
    return events_.action(row) == AllocationAction::kAlloc &&
           (is_backward(stack) || stacks_.of(stack).role == MemoryRole::kForward);
  }

  const AllocationEvents& events_;
  const StackBook& stacks_;
  std::vector<StepRange> ranges_;
  std::vector<StepRange>::const_iterator next_;
  bool empty_is_backward_ = false;
};

MemoryPhases::MemoryPhases(const MemorySnapshot& snapshot, const MemoryHistory& history, const StackBook& stacks) {
  Reading reading(snapshot, history, stacks);
  bool backward_since_step = false;
  for (uint32_t row = history.first; row < history.end; ++row) {
    if (reading.begins_step(row) || (backward_since_step && reading.zeroes_gradients(row))) {
      begin(row, MemoryPhase::kOptimizer);
      backward_since_step = false;
    }
    if (snapshot.events.action(row) == AllocationAction::kAlloc) {
      if (const MemoryPhase phase = reading.phase(row); phase != MemoryPhase::kUnknown) {
        begin(row, phase);
        runs_.back().last = row;
      }
    }
    if (runs_.empty()) continue;
    if (runs_.back().phase == MemoryPhase::kBackward) backward_since_step = true;
    if (runs_.back().phase == MemoryPhase::kOptimizer) backward_since_step = false;
    updated_ |= runs_.back().phase == MemoryPhase::kBackward && reading.steps_in_backward(row);
  }
  optimizing_ = updated_ || (!runs_.empty() && runs_.back().phase == MemoryPhase::kOptimizer);
}

void MemoryPhases::begin(uint32_t row, MemoryPhase phase) {
  const MemoryPhase now = runs_.empty() ? MemoryPhase::kUnknown : runs_.back().phase;
  if (phase == now) return;
  // Without a forward pass in between the backward pass goes on.
  const bool resumes = phase == MemoryPhase::kBackward && now == MemoryPhase::kOptimizer && runs_.size() > 1 &&
                       std::prev(runs_.end(), 2)->phase == MemoryPhase::kBackward;
  if (resumes) {
    runs_.pop_back();
    optimizers_.pop_back();
    updated_ = true;
    return;
  }
  if (phase == MemoryPhase::kBackward) backward_.push_back(row);
  if (phase == MemoryPhase::kOptimizer) optimizers_.push_back(row);
  if (phase != MemoryPhase::kOptimizer && (now == MemoryPhase::kOptimizer || updated_)) step_ends_.push_back(row);
  updated_ = false;
  runs_.push_back({row, row, phase});
}

std::vector<MemoryPhases::Run>::const_iterator MemoryPhases::run_of(uint32_t row) const {
  const auto after =
      std::upper_bound(runs_.begin(), runs_.end(), row, [](uint32_t r, const Run& run) { return r < run.first; });
  return after == runs_.begin() ? runs_.end() : std::prev(after);
}

MemoryPhase MemoryPhases::at(uint32_t row) const {
  const auto run = run_of(row);
  return run == runs_.end() ? MemoryPhase::kUnknown : run->phase;
}

std::optional<uint32_t> MemoryPhases::next_optimizer(uint32_t row) const {
  const auto found = std::ranges::upper_bound(optimizers_, row);
  return found == optimizers_.end() ? std::nullopt : std::optional(*found);
}

bool MemoryPhases::is_after_last_of_backward(uint32_t row) const {
  const auto run = run_of(row);
  if (run == runs_.end() || run->phase != MemoryPhase::kBackward || row <= run->last) return false;
  const auto next = std::next(run);
  return next == runs_.end() || next->phase != MemoryPhase::kOptimizer;
}

uint32_t MemoryPhases::backward_passes(uint32_t row) const { return count_up_to(backward_, row); }
uint32_t MemoryPhases::step(uint32_t row) const { return count_up_to(step_ends_, row); }

}  // namespace profgpu
