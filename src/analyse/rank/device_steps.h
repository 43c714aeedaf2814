// Steps of a trace in which only the devices saw the program's ranges, as PyTorch records them without CPU activity.
//
// A range on the device begins with the first activity that was launched in it, and ends with the last: the host is
// ahead of it. A step begins where the launch of that first activity does, if the launch is known, and ends where the
// next one begins, if that is before its own last activity ends; a range that follows the one before without a break on
// the host (ProfilerStep#) always ends there, and the last one with the host's last launch or the recording.
#pragma once

#include <vector>

#include "trace/trace.h"

namespace profgpu {

struct DeviceStep {
  StringId name;
  Interval time;
};

enum class DeviceRanges : uint8_t { kApart, kWithoutBreak };

/// Of the ranges with such names, the outermost; those of one range on several streams are one. In order, not
/// overlapping.
std::vector<DeviceStep> device_steps(const Trace& trace, const std::vector<bool>& named, DeviceRanges follow);

}  // namespace profgpu
