#include "base/clock.h"

#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

namespace profgpu {
namespace {

constexpr timespec kWithoutTimer{0, 1'000'000};

timespec spec(int64_t ns) { return {ns / 1'000'000'000, ns % 1'000'000'000}; }

}  // namespace

TickTimer::TickTimer() : fd_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)) {}
TickTimer::~TickTimer() {
  if (fd_ >= 0) ::close(fd_);
}

void TickTimer::start(int64_t first_ns, int64_t interval_ns) {
  const itimerspec schedule{spec(interval_ns), spec(first_ns)};
  if (fd_ >= 0) ::timerfd_settime(fd_, TFD_TIMER_ABSTIME, &schedule, nullptr);
}

void TickTimer::wait() {
  uint64_t ticks = 0;
  if (fd_ < 0 || ::read(fd_, &ticks, sizeof ticks) < 0) ::nanosleep(&kWithoutTimer, nullptr);
}

}  // namespace profgpu
