// What a rank's own time goes to: every instant of its busiest device has one kind.
#pragma once

#include <string_view>
#include <vector>

#include "analyse/devices.h"
#include "analyse/idle.h"

namespace profgpu {

/// Compute, else copies, else why nothing runs. What ranks do together is one kind more: a collective's transfer.
enum class LaneTime : uint8_t { kCompute, kCopy, kCommunication, kIdle };   // kIdle and on: idle, by cause
constexpr int kLaneTimes = static_cast<int>(LaneTime::kIdle) + kIdleCauses;
constexpr LaneTime lane_time(IdleCause cause) {
  return static_cast<LaneTime>(static_cast<int>(LaneTime::kIdle) + static_cast<int>(cause));
}
/// "compute", "copy", "communication", else the name of the idle cause.
std::string_view lane_time_name(LaneTime kind);

struct LaneTile {
  int64_t start_ns = 0, end_ns = 0;
  LaneTime kind = LaneTime::kCompute;
};

/// Compute without a pause, on one device.
struct ComputeRun {
  static constexpr int64_t kNoLaunch = INT64_MIN;
  int64_t start_ns = 0, end_ns = 0;
  int64_t launch_ns = kNoLaunch;   ///< start of the call that launched what begins it
};

std::vector<ComputeRun> compute_runs(const Facts& facts, const DeviceTime& device);

/// Tiles from the first window's start to the last one's end, in order of time and without holes within windows. What
/// is neither compute, copy nor a gap of Idle (a collective that no compute waits for, or time before the first
/// activity and after the last) has the cause that idle time would have: data loading, a late launch or a dependency.
std::vector<LaneTile> lane_tiles(const Facts& facts, const DeviceTime& device, const std::vector<ComputeRun>& runs);

}  // namespace profgpu
