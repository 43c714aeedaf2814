#include "live/host_clock.h"

#include <sys/timex.h>

namespace profgpu {

std::optional<HostClock> host_clock() {
  timex clock{};   // modes 0: nothing is set
  const int state = ::adjtimex(&clock);
  if (state < 0) return std::nullopt;
  constexpr int64_t kMicrosecond = 1'000;   // both errors are in microseconds, whatever STA_NANO says
  return HostClock{state != TIME_ERROR && (clock.status & STA_UNSYNC) == 0, int64_t{clock.maxerror} * kMicrosecond,
                   int64_t{clock.esterror} * kMicrosecond};
}

}  // namespace profgpu
