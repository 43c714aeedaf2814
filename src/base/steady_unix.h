// Unix time for what lasts. Who watches a machine for months sees its clock set: at boot, by a person, after a suspend.
// An alert must not be raised by that, nor a counter stand still until an hour has come again.
#pragma once

#include "base/clock.h"

namespace profgpu {

/// Unix time when this was first called, and from there on as long as it really was.
inline int64_t steady_unix_ns() {
  static const int64_t kOffset_ns = unix_ns() - monotonic_ns();
  return monotonic_ns() + kOffset_ns;
}

/// How far the clock was set ahead since: from such a time to the one that is shown and written, or that a driver has.
/// 0 for less than a tenth of a second.
inline int64_t clock_set_by_ns() {
  constexpr int64_t kLeast_ns = 100'000'000;
  const int64_t by_ns = unix_ns() - steady_unix_ns();
  return by_ns > -kLeast_ns && by_ns < kLeast_ns ? 0 : by_ns;
}

}  // namespace profgpu
