#include "analyse/memory/memory_phases.h"

#include <algorithm>
#include <utility>

namespace profgpu {
namespace {

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

bool is_within(const std::vector<TimeRange>& times, int64_t time_us) {
  if (time_us == AllocationEvent::kNoTime) return false;
  const auto after = std::upper_bound(times.begin(), times.end(), std::pair(time_us, INT64_MAX));
  return after != times.begin() && std::prev(after)->second >= time_us;
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

MemoryPhases::MemoryPhases(const MemorySnapshot& snapshot, const MemoryHistory& history, const StackBook& stacks) {
  const AllocationEvents& events = snapshot.events;
  const std::vector<TimeRange> optimizer = optimizer_times(snapshot, history.device);
  // Autograd's threads have no Python frames: where no others are recorded, an empty stack is theirs.
  const bool empty_is_backward = !stacks.empty() && !stacks.has_native_frames();
  // Ranges reach further back than a ring of events.
  const auto is_over = [first = first_time(events, history)](const TimeRange& range) { return range.second < first; };
  auto next_step = std::find_if_not(optimizer.begin(), optimizer.end(), is_over);
  bool backward_since_step = false;
  for (uint32_t row = history.first; row < history.end; ++row) {
    const AllocationAction action = events.action(row);
    const uint32_t stack = events.stack(row);
    if (const int64_t time_us = events.time_us(row); time_us != AllocationEvent::kNoTime)
      for (; next_step != optimizer.end() && next_step->first <= time_us; ++next_step)
        begin(row, MemoryPhase::kOptimizer);
    if (action == AllocationAction::kFreeRequested && backward_since_step && stacks.of(stack).zeroes_gradients)
      begin(row, MemoryPhase::kOptimizer);
    if (action == AllocationAction::kAlloc) {
      MemoryPhase phase = phase_of(stacks.of(stack).role);
      if (stack == MemoryStacks::kNone && empty_is_backward) phase = MemoryPhase::kBackward;
      if (is_within(optimizer, events.time_us(row))) phase = MemoryPhase::kOptimizer;
      if (phase != MemoryPhase::kUnknown) {
        begin(row, phase);
        runs_.back().last = row;
      }
    }
    if (!runs_.empty() && runs_.back().phase == MemoryPhase::kBackward) backward_since_step = true;
    if (!runs_.empty() && runs_.back().phase == MemoryPhase::kOptimizer) backward_since_step = false;
  }
  optimizing_ = !runs_.empty() && runs_.back().phase == MemoryPhase::kOptimizer;
}

void MemoryPhases::begin(uint32_t row, MemoryPhase phase) {
  const MemoryPhase now = runs_.empty() ? MemoryPhase::kUnknown : runs_.back().phase;
  if (phase == now) return;
  if (phase == MemoryPhase::kBackward) backward_.push_back(row);
  if (now == MemoryPhase::kOptimizer) step_ends_.push_back(row);
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
  const auto found = std::find_if(
      std::upper_bound(runs_.begin(), runs_.end(), row, [](uint32_t r, const Run& run) { return r < run.first; }),
      runs_.end(), [](const Run& run) { return run.phase == MemoryPhase::kOptimizer; });
  return found == runs_.end() ? std::nullopt : std::optional(found->first);
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
