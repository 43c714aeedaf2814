// Which phase of training each instant of the steps belongs to, and which phase launched each activity.
#pragma once

#include <array>

#include "analyse/names.h"
#include "trace/intervals.h"

namespace profgpu {

struct PhaseSegment {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  Phase phase = Phase::kOther;
  uint32_t step = 0;           ///< index into Steps::steps
};

struct Phases {
  std::vector<PhaseSegment> segments;            ///< partition of the steps, in time order
  std::array<int64_t, kPhases> wall_ns{};        ///< over all steps
  std::array<int64_t, kPhases> measured_wall_ns{};  ///< over measured steps
  std::array<int64_t, kPhases> device_busy_ns{};
  std::vector<Phase> of_activity;                ///< phase of each activity's launch
  /// Ranges on the step's thread that mark data loading / checkpoints, merged, over all of the trace.
  Intervals data_loading, checkpoint;
  /// Backward passes, one a micro-batch: of the autograd engine's ops, else ranges on the step's thread.
  Intervals backward;
  int64_t backward_passes = 0;   ///< micro-batches
  int64_t optimizer_steps = 0;
  static Phases compute(const Facts& facts);
};

}  // namespace profgpu
