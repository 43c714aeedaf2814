// Clocks, in nanoseconds.
#pragma once

#include <ctime>

#include <cstdint>

namespace profgpu {

inline int64_t clock_ns(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}
/// Never goes back; its zero means nothing.
inline int64_t monotonic_ns() { return clock_ns(CLOCK_MONOTONIC); }
inline int64_t unix_ns() { return clock_ns(CLOCK_REALTIME); }
inline int64_t thread_cpu_ns() { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace profgpu
