// The kernel's event that tells when threads leave a processor and get one (perf_event_open(2)). Not allowed
// everywhere.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "devices/system_files.h"

namespace profgpu {

/// Opens the event for processor number `processor`: of the calling thread and all that it starts from now on. (To have
/// it begin with the exec of one of these is no way: parent and child may swap their events before.) Its records carry
/// TID and TIME (CLOCK_MONOTONIC). Whoever polls it is woken when that many bytes are in its ring. Returns a descriptor
/// that programs do not get; -1: errno says why.
int open_switch_event(int processor, uint32_t wakeup_bytes);

/// Why there is no such event, for an errno of open_switch_event() or of mmap() on it, and how it may be had.
Error switch_event_refusal(int error, const SystemRoots& roots);

}  // namespace profgpu
