// What the measured steps are made of, for comparing runs: sums over those steps and how they vary from step to step.
#pragma once

#include "analyse/idle.h"
#include "analyse/kernels.h"
#include "analyse/phases.h"

namespace profgpu {

/// What the rank's busiest device does at an instant: a kind of work, the cause of a gap, or neither.
struct StepState {
  enum : uint8_t { kCompute, kCommunication, kMemory, kOutside, kFirstIdle };
  static constexpr int kCount = kFirstIdle + kIdleCauses;
};
/// "compute", "communication" and "memory" (exposed: while nothing before it in this list runs), "idle: host_bound" ...,
/// "outside": before the device's first activity or after its last.
std::string device_state_name(int state);

struct Varying {
  int64_t total_ns = 0;       ///< over the measured steps
  double step_stddev_ns = 0;  ///< of a step's sum; the sample's, 0 for one step
};

/// Activity of one name that one op launched with one set of shapes. It belongs to the step that it starts in.
struct MeasuredWork {
  StringId name;
  WorkKind kind = WorkKind::kCompute;
  StringId op;      ///< innermost op or annotation around the launch; may be invalid
  StringId shapes;  ///< of that op; may be invalid
  int64_t count = 0;
  Varying time;
};

struct MeasuredSteps {
  int64_t steps = 0;
  int64_t wall_ns = 0;
  std::array<std::array<int64_t, StepState::kCount>, kPhases> makeup_ns{};  ///< adds up to wall_ns exactly
  std::array<Varying, kPhases> phases;
  std::array<Varying, StepState::kCount> states;
  std::vector<MeasuredWork> work;  ///< longest first, then name, op, shapes
  static MeasuredSteps compute(const Facts& facts);
};

}  // namespace profgpu
