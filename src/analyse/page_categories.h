// Categories of events on a page, in one numbering: kernels, copies, host ranges, phases, causes of idleness.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyse/idle.h"
#include "analyse/kernels.h"
#include "analyse/names.h"

namespace profgpu {

struct PageCategory {
  enum : uint8_t {
    kKernel = 0,
    kMemcpy = static_cast<uint8_t>(KernelCategory::kOther) + 1,
    kMemset,
    kHost,                                                        ///< the first of the kinds of host ranges
    kPhase = kHost + static_cast<uint8_t>(HostKind::kOverhead) + 1,
    kIdle = kPhase + kPhases,
    kStep = kIdle + kIdleCauses,
    kWarmup,
    kSync,
    kCollective,
    kWait,
    kBlocked,
    kCount,
  };
  static uint8_t of(HostKind kind) { return static_cast<uint8_t>(kHost + static_cast<uint8_t>(kind)); }
  static uint8_t of(Phase phase) { return static_cast<uint8_t>(kPhase + static_cast<uint8_t>(phase)); }
  static uint8_t of(IdleCause cause) { return static_cast<uint8_t>(kIdle + static_cast<uint8_t>(cause)); }
};

/// By number; web/README.md says what they mean.
std::vector<std::string> page_category_names();

}  // namespace profgpu
