// What each step of a rank did, so that steps of different ranks can be told apart: the same work slower, or other work.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "analyse/facts.h"
#include "analyse/idle.h"
#include "analyse/names.h"

namespace profgpu {

/// Of one step, on the rank's busiest device.
struct StepWork {
  std::array<int64_t, kPhases> phase_ns{};        ///< parts of the step's wall time
  std::array<int64_t, kIdleCauses> idle_ns{};     ///< gaps, clipped to the step
  int64_t compute_ns = 0, exposed_communication_ns = 0;   ///< lengths of unions, clipped to the step
};

struct RankWork {
  std::vector<StepWork> steps;   ///< of Steps::steps, one for one
  static RankWork compute(const Facts& facts);
};

}  // namespace profgpu
