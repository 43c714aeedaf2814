// A rank's trace as tracks of a page: steps and phases, per device idle time, streams, collectives and waits, then
// threads and counters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyse/rank/idle.h"
#include "analyse/rank/kept_events.h"
#include "analyse/rank/kernels.h"
#include "analyse/rank/names.h"
#include "analyse/rank/sample_series.h"
#include "analyse/rank/track_writer.h"
#include "analyse/report/page.h"
#include "trace/trace.h"

namespace profgpu {

/// Categories of a page's events, in one numbering: kernels, copies, host ranges, phases, idle causes.
struct PageCategory {
  enum : uint8_t {
    kKernel = 0,
    kMemcpy = static_cast<uint8_t>(KernelCategory::kOther) + 1,
    kMemset,
    kHost,                                                        ///< the first HostKind
    kPhase = kHost + static_cast<uint8_t>(HostKind::kSystem) + 1,
    kIdle = kPhase + kPhases,
    kStep = kIdle + kIdleCauses,
    kWarmup,
    kSync,
    kCollective,
    kWait,
    kBlocked,
    kOwnPhase,
    kCount,
  };
  static uint8_t of(HostKind kind) { return static_cast<uint8_t>(kHost + static_cast<uint8_t>(kind)); }
  static uint8_t of(Phase phase) {
    const auto p = static_cast<uint8_t>(phase);
    return p < kPhases ? static_cast<uint8_t>(kPhase + p) : uint8_t{kOwnPhase};
  }
  static uint8_t of(IdleCause cause) { return static_cast<uint8_t>(kIdle + static_cast<uint8_t>(cause)); }
};

/// Of a kernel, copy or set.
uint8_t activity_category(const Facts& facts, ActivityId activity);
/// By number; web/README.md describes them.
std::vector<std::string> page_category_names();

/// Common to all ranks of a page.
struct TimelinePlan {
  PageScale scale;
  int64_t host_least_ns = 0;       ///< as KeptEvents has it
};

/// "thread 123 (main)"
std::string thread_title(const Thread& thread);

/// Adds the rank's tracks, with the names and arguments they need. `clocks`: of the rank's devices; may be empty.
void add_timeline(const PlacedRank& rank, const TimelinePlan& plan, const DeviceClocks& clocks, PageData& page);

}  // namespace profgpu
