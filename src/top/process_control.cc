#include "top/process_control.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/decimal.h"
#include "collect/host_process.h"

namespace profgpu {
namespace {

// The time of boot, to which starts are added, is in whole seconds and may be rounded differently each time.
constexpr int64_t kSameStart_ns = 1'500'000'000;

Error refused(const ProcessCommand& command, int error) {
  const std::string why = error == ESRCH   ? "it has ended"
                          : error == EPERM || error == EACCES ? "this user may not"
                                           : std::strerror(error);
  return {command.what + ": " + why, error == EPERM || error == EACCES ? "root may, or the process' own user" : ""};
}

/// Keeps a process' number from meaning another process; -1 where the kernel is too old for it.
class ProcessHandle {
 public:
  explicit ProcessHandle(int64_t pid) : fd_(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0))) {}
  ~ProcessHandle() {
    if (fd_ >= 0) ::close(fd_);
  }
  ProcessHandle(const ProcessHandle&) = delete;
  ProcessHandle& operator=(const ProcessHandle&) = delete;
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

// Linux gives each thread a nice value of its own. 0, else errno.
int set_nice(int64_t pid, int nice) {
  const std::string folder = fmt::format("/proc/{}/task", pid);
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(::opendir(folder.c_str()), ::closedir);
  if (!tasks) return errno;
  int error = 0;
  while (const dirent* entry = ::readdir(tasks.get())) {
    const auto task = whole_number(entry->d_name);
    if (!task || ::setpriority(PRIO_PROCESS, static_cast<id_t>(*task), nice) == 0) continue;
    if (errno != ESRCH) error = errno;   // a thread that ended needs no nice value
  }
  return error;
}

}  // namespace

Status carry_out(const ProcessCommand& command) {
  if (command.pid <= 1) return Error{command.what + ": not a process that may be chosen"};
  const ProcessHandle handle(command.pid);
  const int opened = errno;
  if (handle.fd() < 0 && opened != ENOSYS) return refused(command, opened);
  const HostProcess now = HostProcesses("/proc").look_here(command.pid);
  const bool same = now.start_ns && command.start_ns && std::llabs(*now.start_ns - *command.start_ns) < kSameStart_ns;
  if (!same) return Error{command.what + ": it has ended, and its number may be another's"};
  if (command.signal == 0) {
    const int error = set_nice(command.pid, command.nice);
    return error == 0 ? ok() : Status(refused(command, error));
  }
  const int64_t sent = handle.fd() >= 0 ? ::syscall(SYS_pidfd_send_signal, handle.fd(), command.signal, nullptr, 0)
                                        : ::kill(static_cast<pid_t>(command.pid), command.signal);
  return sent == 0 ? ok() : Status(refused(command, errno));
}

}  // namespace profgpu
