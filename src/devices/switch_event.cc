#include "devices/switch_event.h"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/decimal.h"

namespace profgpu {

int open_switch_event(int processor, uint32_t wakeup_bytes) {
  perf_event_attr attr{};
  attr.size = sizeof attr;
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = PERF_COUNT_SW_DUMMY;   // counts nothing: only what it says beside counting is wanted
  attr.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
  attr.sample_id_all = 1;
  attr.context_switch = 1;
  attr.task = 1;   // ends of threads
  attr.inherit = 1;
  attr.exclude_kernel = 1;   // with it, perf_event_paranoid 2 allows the event to everybody
  attr.exclude_hv = 1;
  attr.use_clockid = 1;
  attr.clockid = CLOCK_MONOTONIC;
  attr.watermark = 1;
  attr.wakeup_watermark = wakeup_bytes;
  return static_cast<int>(::syscall(SYS_perf_event_open, &attr, 0, processor, -1, PERF_FLAG_FD_CLOEXEC));
}

Error switch_event_refusal(int error, const SystemRoots& roots) {
  const auto paranoid = whole_number(file_line(roots.proc + "/sys/kernel/perf_event_paranoid"));
  switch (error) {
    case EPERM:
    case EACCES:
      if (paranoid && *paranoid > 2)
        return {fmt::format("perf events are not allowed: kernel.perf_event_paranoid is {}", *paranoid),
                "`sysctl kernel.perf_event_paranoid=2` allows those of one's own programs; or the capability PERFMON"};
      return {"perf events are not allowed here, as in containers",
              "docker run --cap-add PERFMON; Kubernetes: securityContext.capabilities.add [PERFMON]"};
    case ENOMEM:
      return {"perf events get no memory that stays in place",
              "raise kernel.perf_event_mlock_kb (sysctl) or memlock (ulimit -l)"};
    case EMFILE:
    case ENFILE: return {"perf events need an open file for each processor", "ulimit -n 4096"};
    case ENOSYS:
    case ENOENT:
    case EOPNOTSUPP:
    case EINVAL:
      return {"this kernel has no perf events for context switches (Linux 4.3 and newer, if built in)"};
    default: return {std::string("perf events are not available: ") + std::strerror(error)};
  }
}

}  // namespace profgpu
