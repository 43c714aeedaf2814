// A rank's trace as tracks of a page: steps and phases, per device its idleness, streams, collectives and waits, then
// threads and counters.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
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

// Categories of events on a page, in one numbering: kernels, copies, host ranges, phases, causes of idleness.

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

/// By number; web/README.md says what they mean.
std::vector<std::string> page_category_names();

// What events were called with, as keys and texts for a person; events that agree share an entry of the page.

class TimelineArgs {
 public:
  TimelineArgs(const Trace& trace, PageData& page);

  uint32_t of(ActivityArgsId id);
  uint32_t of(HostId row);
  uint32_t of(const Collective& call);

 private:
  // Beyond that many sets, calls differ so much that arguments would be most of the page.
  static constexpr size_t kMost = 50'000;

  uint32_t add(PageArgs args);
  uint32_t of(OpArgsId id);

  const Trace& trace_;
  PageData& page_;
  std::vector<uint32_t> of_activity_, of_op_;            // known ones, else kUnknown
  std::unordered_map<std::string, uint32_t> known_;
};

/// What holds for all ranks of a page.
struct TimelinePlan {
  PageScale scale;
  int64_t host_least_ns = 0;       ///< as in KeptEvents
};

/// "thread 123 (main)"
std::string thread_title(const Thread& thread);

/// Adds the rank's tracks, and names and arguments that they need. `clocks`: of the rank's devices; may be empty.
void add_timeline(const PlacedRank& rank, const TimelinePlan& plan, const DeviceClocks& clocks, PageData& page);

}  // namespace profgpu
