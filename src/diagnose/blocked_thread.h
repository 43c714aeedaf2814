// What kept a thread from launching: in system calls, as samples of it say.
#pragma once

#include <optional>
#include <string>

#include "diagnose/measure.h"

namespace profgpu {

struct BlockedThread {
  std::string said;   ///< "meanwhile the thread that launches is blocked 92 % of the time, in read: it reads"
  std::string fix;    ///< where it is for most of the time, and known what for; else empty
};
/// Of the threads that end the cause's gaps in measured steps, within these; nothing where samples are few or show none
/// blocked for a good part.
std::optional<BlockedThread> blocked_thread(const Measured& measured, IdleCause cause);
/// Makes it the finding's first evidence and fix.
void add_blocked_thread(Finding& finding, const Measured& measured, IdleCause cause);

}  // namespace profgpu
