#include "base/clock.h"

#include <gtest/gtest.h>

#include <thread>

namespace profgpu {

namespace {

constexpr int64_t kMs = 1'000'000;

void wait_until(TickTimer& timer, int64_t ns) {
  while (monotonic_ns() < ns) timer.wait();
}

TEST(TickTimer, KeepsToItsSchedule) {
  TickTimer timer;
  const int64_t first = monotonic_ns() + 5 * kMs;
  timer.start(first, 3 * kMs);
  for (int i = 0; i < 5; ++i) wait_until(timer, first + i * 3 * kMs);
  EXPECT_GE(monotonic_ns(), first + 12 * kMs);
}

TEST(TickTimer, ATickThatHasPassedIsNotWaitedFor) {
  TickTimer timer;
  timer.start(monotonic_ns() - 10 * kMs, 3'600'000 * kMs);
  const int64_t begun = monotonic_ns();
  timer.wait();
  EXPECT_LT(monotonic_ns() - begun, 1'000'000 * kMs);
}

TEST(TickTimer, AnotherThreadWakesTheOneThatWaits) {
  TickTimer timer;
  timer.start(monotonic_ns() + 3'600'000 * kMs, 3'600'000 * kMs);
  std::thread waits([&] { timer.wait(); });
  timer.wake();
  waits.join();
}

TEST(TickTimer, AWakeBeforeTheWaitIsNotLost) {
  TickTimer timer;
  timer.start(monotonic_ns() + 3'600'000 * kMs, 3'600'000 * kMs);
  timer.wake();
  timer.wait();
}

TEST(TickTimer, AnotherScheduleReplacesTheFirst) {
  TickTimer timer;
  timer.start(monotonic_ns() + 3'600'000 * kMs, 3'600'000 * kMs);
  std::thread waits([&] { timer.wait(); });
  timer.start(monotonic_ns() + kMs, kMs);
  waits.join();
}

}  // namespace

}  // namespace profgpu
