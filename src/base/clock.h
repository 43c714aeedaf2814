// Clocks, in nanoseconds.
#pragma once

#include <cstdint>
#include <ctime>

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

// TickTimer: wakes one thread on an absolute schedule, without the lock that a condition variable comes with.

class TickTimer {
 public:
  TickTimer();
  ~TickTimer();
  TickTimer(const TickTimer&) = delete;
  TickTimer& operator=(const TickTimer&) = delete;

  /// A tick at `first_ns` (CLOCK_MONOTONIC) and each interval from there on. By any thread; who waits, waits for these.
  void start(int64_t first_ns, int64_t interval_ns);
  /// wait() returns, now or when it is next called.
  void wake() { start(1, 0); }
  /// Until the next tick; at once where one has passed since the last wait. May return early: look at the clock.
  void wait();

 private:
  int fd_;   // -1: the process has too many files open
};

}  // namespace profgpu
