// Forward, backward and optimizer over a device's events, as far as its allocations tell, and the steps that they make.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analyse/memory/lifetimes.h"
#include "analyse/memory/stack_facts.h"

namespace profgpu {

enum class MemoryPhase : uint8_t { kUnknown, kForward, kBackward, kOptimizer };
std::string_view memory_phase_name(MemoryPhase phase);

class MemoryPhases {
 public:
  /// An allocation within a range of the program's named "Optimizer.step#" is the optimizer's unless its stack says
  /// forward or backward; else its stack decides. Such a range is a phase even if nothing is allocated in it, and so is
  /// the zeroing of gradients after a backward pass: SGD allocates nothing. If a closure computes the loss within the
  /// range, the optimizer's phase begins after that. Optimizers that step for one parameter after the other within the
  /// backward pass are a part of it, and end one step.
  MemoryPhases(const MemorySnapshot& snapshot, const MemoryHistory& history, const StackBook& stacks);

  [[nodiscard]] MemoryPhase at(uint32_t row) const;
  /// Backward passes that began up to this event.
  [[nodiscard]] uint32_t backward_passes(uint32_t row) const;
  [[nodiscard]] uint32_t all_backward_passes() const { return static_cast<uint32_t>(backward_.size()); }
  /// The step that an event is in: steps that ended before it.
  [[nodiscard]] uint32_t step(uint32_t row) const;
  /// Events after which a step is over, the first of each: what follows an optimizer's phase.
  [[nodiscard]] const std::vector<uint32_t>& step_ends() const { return step_ends_; }
  [[nodiscard]] bool has_steps() const { return !step_ends_.empty() || optimizing_; }
  /// Whether the recording ends with an optimizer's step, that is not over.
  [[nodiscard]] bool is_optimizing() const { return optimizing_; }
  /// Rows at which backward passes begin.
  [[nodiscard]] const std::vector<uint32_t>& backward_begins() const { return backward_; }
  /// The row at which the next optimizer's phase begins; none: there is none.
  [[nodiscard]] std::optional<uint32_t> next_optimizer(uint32_t row) const;
  /// Whether an event comes after all allocations of its backward pass, which no optimizer's phase follows.
  [[nodiscard]] bool is_after_last_of_backward(uint32_t row) const;

 private:
  class Reading;
  struct Run {
    uint32_t first = 0, last = 0;  ///< rows of its first event and its last allocation
    MemoryPhase phase = MemoryPhase::kUnknown;
  };
  void begin(uint32_t row, MemoryPhase phase);
  [[nodiscard]] std::vector<Run>::const_iterator run_of(uint32_t row) const;  ///< end(): before the first
  std::vector<Run> runs_;
  std::vector<uint32_t> backward_, optimizers_, step_ends_;  ///< rows
  bool optimizing_ = false;                     ///< the last phase is an optimizer's, or has one in it
  bool updated_ = false;                        ///< an optimizer stepped in the backward pass that is the last run
};

}  // namespace profgpu
