// What each step of a rank did, so that steps of different ranks can be told apart: the same work slower, or other work.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "analyse/facts.h"
#include "analyse/idle.h"
#include "analyse/names.h"

namespace profgpu {

/// Of one step, on the rank's busiest device. Kernels are those that compute and that the step launched; only steps
/// that averages are over have them.
struct StepWork {
  std::array<int64_t, kPhases> phase_ns{};        ///< parts of the step's wall time
  std::array<int64_t, kIdleCauses> idle_ns{};     ///< gaps, clipped to the step
  int64_t compute_ns = 0, exposed_communication_ns = 0, exposed_memory_ns = 0;   ///< lengths of unions, clipped to the step
  int64_t kernels = 0;
  int64_t kernel_ns = 0;        ///< sum of their durations
  uint64_t work = 0;            ///< equal where the kernels' names, grids and blocks are, whatever their order; 0: no kernel
  int64_t input_elements = -1;  ///< of the inputs of the ops that launched them; -1: not recorded
};

/// Kernels of one name, grid and block in the steps that averages are over.
struct KernelWork {
  uint64_t key = 0;             ///< the same on every rank
  std::string name;             ///< short
  int64_t count = 0, total_ns = 0;
};

struct RankWork {
  static constexpr size_t kMostKernels = 64;

  std::vector<StepWork> steps;       ///< of Steps::steps, one for one
  std::vector<KernelWork> kernels;   ///< dearest first
  static RankWork compute(const Facts& facts);
};

}  // namespace profgpu
