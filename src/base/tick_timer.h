// TickTimer: wakes one thread on an absolute schedule, without the lock that a condition variable comes with.
#pragma once

#include <cstdint>

namespace profgpu {

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
