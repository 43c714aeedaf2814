// Where host threads wait for a device.
#pragma once

#include "analyse/facts.h"
#include "trace/intervals.h"

namespace profgpu {

struct Waits {
  /// Calls that wait for a device (stream, device, event synchronise, blocking copies), by thread, in order of time.
  std::vector<std::vector<HostId>> calls;
  /// Their time, merged, by thread.
  std::vector<Intervals> device_waits;
  static Waits compute(const Facts& facts);
};

}  // namespace profgpu
