// Lane: one rank's way through its trace, as the points where it meets others, with its own time between them.
//
// The lane is the busiest device's: it computes, or it idles, or it waits for a collective. A collective is handed its
// part when the compute that it needs has ended and the host has launched it; a wait is a pause of the compute that
// ends with a collective, either because the next kernel had been launched before or because the host waited too.
// Everything else is the rank's own time. Two points a collective at most, so that a lane grows with calls and steps.
#pragma once

#include <string_view>
#include <vector>

#include "analyse/rank/devices.h"
#include "analyse/rank/facts.h"
#include "analyse/rank/idle.h"

namespace profgpu {

// What a rank's own time goes to: every instant of its busiest device has one kind.

/// Compute, else copies, else why nothing runs. What ranks do together is one kind more: a collective's transfer.
enum class LaneTime : uint8_t { kCompute, kCopy, kCommunication, kIdle };   // kIdle and on: idle, by cause
constexpr int kLaneTimes = static_cast<int>(LaneTime::kIdle) + kIdleCauses;
constexpr LaneTime lane_time(IdleCause cause) {
  return static_cast<LaneTime>(static_cast<int>(LaneTime::kIdle) + static_cast<int>(cause));
}
/// "compute", "copy", "communication", else the name of the idle cause.
std::string_view lane_time_name(LaneTime kind);

struct LanePoint {
  enum class What : uint8_t {
    kRestart,     ///< a window of the profiler begins
    kArrive,      ///< a collective has what it needs of this rank; its kernel may start later
    kWait,        ///< a collective ends that the lane could not go on without
    kStepEnd,
    kStepBegin,
  };
  int64_t time_ns = 0;       ///< by the rank's own clock. Before the event itself where that falls into a wait
  uint32_t of = 0;           ///< CollectiveCalls::calls, or Steps::steps
  uint32_t parts_end = 0;    ///< Lane::parts up to here, from the point before on, are the time since that point
  What what = What::kRestart;
};

/// Own time of one kind between two points, added up.
struct LanePart {
  int64_t ns = 0;
  LaneTime kind = LaneTime::kCompute;
};

/// The host's side of a step.
struct LaneStep {
  int64_t host_ns = 0;       ///< it does not wait for the device: the step cannot take less
  int64_t loading_ns = 0, saving_ns = 0;   ///< of that, in data loading and in checkpoints
};

struct Lane {
  std::vector<LanePoint> points;   ///< in order of time
  std::vector<LanePart> parts;     ///< between two points by first appearance
  std::vector<LaneStep> steps;     ///< of Steps::steps, one for one
  static Lane compute(const Facts& facts);
};

}  // namespace profgpu
