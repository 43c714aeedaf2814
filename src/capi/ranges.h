// The ranges that a program names: to the recorder in this process, and to the monitors that follow a thread.
#pragma once

#include <profgpu/monitor.h>

#include <string>
#include <thread>

namespace profgpu {

/// From here on, what the calling thread opens and closes is a mark of the monitor's. Again: from this thread instead.
void follow_ranges(Monitor& monitor);
/// Nothing where it follows none. After it, no thread is in the monitor's mark() for a range.
void unfollow_ranges(Monitor& monitor);

}  // namespace profgpu
