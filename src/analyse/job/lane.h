// Lane: one rank's timeline, reduced to the points where it interacts with others and its own time between them.
//
// It follows the busiest device, which computes, idles, or waits for a collective. The rank arrives at a collective
// when the compute before it has ended and the host has launched it. A wait is a pause of compute that ends with a
// collective, because the next kernel was already launched or the host waited too. All other time is the rank's own. A
// collective has at most two points, so that a lane grows with calls and steps.
#pragma once

#include <string_view>
#include <vector>

#include "analyse/rank/devices.h"
#include "analyse/rank/facts.h"
#include "analyse/rank/idle.h"
#include "analyse/report/report.h"

namespace profgpu {

/// Kind of a rank's own time: compute, else copies, else the cause of idleness; kCommunication is a collective's
/// transfer.
enum class LaneTime : uint8_t { kCompute, kCopy, kCommunication, kIdle };   // from kIdle on: idle, by cause
constexpr int kLaneTimes = static_cast<int>(LaneTime::kIdle) + kIdleCauses;
constexpr LaneTime lane_time(IdleCause cause) {
  return static_cast<LaneTime>(static_cast<int>(LaneTime::kIdle) + static_cast<int>(cause));
}
/// "compute", "copy", "communication", else the name of the idle cause.
std::string_view lane_time_name(LaneTime kind);

struct LanePoint {
  enum class What : uint8_t {
    kRestart,     ///< a profiler window begins
    kArrive,      ///< the rank is ready for a collective; its kernel may start later
    kWait,        ///< a collective ends that the lane waited for
    kStepEnd,
    kStepBegin,
  };
  int64_t time_ns = 0;       ///< on the rank's own clock. Before the event itself if that is within a wait
  uint32_t of = 0;           ///< index into CollectiveCalls::calls, or Steps::steps
  uint32_t parts_end = 0;    ///< the time since the previous point is Lane::parts from its parts_end to here
  What what = What::kRestart;
};

/// Sum of own time of one kind between two points.
struct LanePart {
  int64_t ns = 0;
  LaneTime kind = LaneTime::kCompute;
};

/// The host's side of a step.
struct LaneStep {
  int64_t host_ns = 0;       ///< without waits for the device: a lower bound of the step
  int64_t loading_ns = 0, saving_ns = 0;   ///< of that, in data loading and in checkpoints
};

struct Lane {
  std::vector<LanePoint> points;   ///< in time order
  std::vector<LanePart> parts;     ///< between two points by first appearance
  std::vector<LaneStep> steps;     ///< one per Steps::steps
  static Lane compute(const Facts& facts);

  /// `saved_ns` in all, spread over the points by how much of `time` (sorted, disjoint, on the trace's clock) lies
  /// before each; in the points' order.
  [[nodiscard]] std::vector<LaneSaving> savings(const Trace& trace, const Intervals& time, int64_t saved_ns) const;
};

}  // namespace profgpu
