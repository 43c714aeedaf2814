// Unix time that nobody sets: the simulated device goes on when the machine's clock is stepped.
#pragma once

#include <atomic>
#include <cstdint>

#include "sim.h"

namespace cuda_sim {

/// How far the machine's clock was stepped since the first call. Less than 50 ms is no step.
class ClockSteps {
 public:
  int64_t ns() {
    const int64_t roughly = static_cast<int64_t>(clock_ns(CLOCK_REALTIME_COARSE) - clock_ns(CLOCK_MONOTONIC_COARSE));
    if (differ(roughly - begun_, stepped_.load(std::memory_order_relaxed))) look_again();
    return stepped_.load(std::memory_order_relaxed);
  }

 private:
  static bool differ(int64_t a, int64_t b) { return a - b > 50'000'000 || b - a > 50'000'000; }
  // The thread may be interrupted between readings of the two clocks: the nearest of several counts.
  static int64_t unix_less_steady() {
    int64_t found = 0;
    uint64_t least = UINT64_MAX;
    for (int look = 0; look < 20; ++look) {
      const uint64_t before = clock_ns(CLOCK_MONOTONIC), unix_ns = clock_ns(CLOCK_REALTIME);
      const uint64_t took = clock_ns(CLOCK_MONOTONIC) - before;
      if (took >= least) continue;
      least = took;
      found = static_cast<int64_t>(unix_ns - before - took / 2);
    }
    return found;
  }
  void look_again() {
    const int64_t stepped = unix_less_steady() - begun_;
    if (differ(stepped, stepped_.load(std::memory_order_relaxed))) stepped_.store(stepped, std::memory_order_relaxed);
  }

  const int64_t begun_ = unix_less_steady();
  std::atomic<int64_t> stepped_{0};
};

inline int64_t clock_steps_ns() {
  static ClockSteps steps;
  return steps.ns();
}

inline uint64_t steady_unix_ns() {
  for (;;) {
    const int64_t before = clock_steps_ns();
    const uint64_t now = clock_ns(CLOCK_REALTIME);
    if (clock_steps_ns() == before) return now - static_cast<uint64_t>(before);
  }
}

}  // namespace cuda_sim
