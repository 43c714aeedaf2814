// What should be said about devices as they are: one line each, with what to do.
#pragma once

#include <vector>

#include "diagnose/rule.h"
#include "live/live_view.h"
#include "top/history.h"

namespace profgpu {

struct DeviceAdvice : Advice {
  size_t device = 0;             ///< position in the view
};

/// Worst first, then by device.
std::vector<DeviceAdvice> advice_on(const LiveView& view, const Histories& histories);

}  // namespace profgpu
