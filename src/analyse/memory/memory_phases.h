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
  /// An allocation within a range of the program's named "Optimizer.step#" is the optimizer's; else its stack decides.
  MemoryPhases(const MemorySnapshot& snapshot, const MemoryHistory& history, const StackBook& stacks);

  [[nodiscard]] MemoryPhase at(uint32_t row) const;
  /// Backward passes that began up to this event.
  [[nodiscard]] uint32_t backward_passes(uint32_t row) const;
  [[nodiscard]] uint32_t all_backward_passes() const { return static_cast<uint32_t>(backward_.size()); }
  /// The step that an event is in: optimizer phases that ended before it.
  [[nodiscard]] uint32_t step(uint32_t row) const;
  /// Events after which a step is over, the first of each: what follows an optimizer's phase.
  [[nodiscard]] const std::vector<uint32_t>& step_ends() const { return step_ends_; }
  [[nodiscard]] bool has_steps() const { return !step_ends_.empty() || optimizing_; }
  /// Whether the recording ends within an optimizer's step.
  [[nodiscard]] bool is_optimizing() const { return optimizing_; }

 private:
  struct Run {
    uint32_t first = 0;
    MemoryPhase phase = MemoryPhase::kUnknown;
  };
  std::vector<Run> runs_;
  std::vector<uint32_t> backward_, step_ends_;  ///< rows
  bool optimizing_ = false;                     ///< the last phase is an optimizer's
};

}  // namespace profgpu
