#include "devices/nvidia_smi_child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "base/clock.h"

namespace profgpu {
namespace {

constexpr int64_t kMillisecond = 1'000'000;

struct Children {
  std::mutex lock;
  std::set<pid_t> pids;
};
// Never destroyed: a thread that reads one may outlive main.
Children& children() {
  static auto* const kAll = new Children;
  return *kAll;
}

/// Nothing that is asked of nvidia-smi prints more.
constexpr size_t kMaxOutput = 4 << 20;

std::vector<std::string> c_environment() {
  std::vector<std::string> variables = {"LC_ALL=C"};
  for (char** v = environ; *v; ++v)
    if (!std::string_view(*v).starts_with("LC_ALL=")) variables.emplace_back(*v);
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& w : words) pointers.push_back(w.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// After fork() in a program with threads: only what POSIX calls async-signal-safe, so no allocation.
[[noreturn]] void become(char* const* arguments, char* const* environment, int output, pid_t parent) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before the line above.
  if (::getppid() != parent) ::_exit(127);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGCHLD}) ::signal(s, SIG_DFL);
  const int null = ::open("/dev/null", O_RDONLY);
  if (null >= 0) ::dup2(null, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::execve(arguments[0], arguments, environment);
  ::_exit(127);
}

}  // namespace

Status SmiChild::start(const std::vector<std::string>& command) {
  end();
  if (running()) return Error{"the one before is stuck in the driver"};
  if (::access(command.front().c_str(), X_OK) != 0)
    return Error{fmt::format("{}: {}", command.front(), std::strerror(errno))};
  std::vector<std::string> words = command, variables = c_environment();
  const std::vector<char*> arguments = pointers_to(words), environment = pointers_to(variables);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error{fmt::format("no pipe: {}", std::strerror(errno))};
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) become(arguments.data(), environment.data(), ends[1], parent);
  ::close(ends[1]);
  if (pid < 0) {
    ::close(ends[0]);
    return Error{fmt::format("no process: {}", std::strerror(errno))};
  }
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  pid_ = pid, fd_ = ends[0], exit_status_ = 0;
  const std::lock_guard lock(children().lock);
  children().pids.insert(pid);
  return ok();
}

bool SmiChild::read(std::string& text) {
  char buffer[16384];
  while (fd_ >= 0) {
    const ssize_t n = ::read(fd_, buffer, sizeof buffer);
    if (n > 0) text.append(buffer, static_cast<size_t>(n));
    else if (n == 0 || (errno != EINTR && errno != EAGAIN)) ::close(fd_), fd_ = -1;
    else if (errno == EAGAIN) return true;
    if (text.size() > kMaxOutput) return true;
  }
  return false;
}

bool SmiChild::reaped() {
  if (pid_ <= 0) return true;
  int status = 0;
  const pid_t got = ::waitpid(pid_, &status, WNOHANG);
  if (got == 0 || (got < 0 && errno == EINTR)) return false;
  if (got == pid_) exit_status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  const std::lock_guard lock(children().lock);
  children().pids.erase(std::exchange(pid_, 0));
  return true;
}

bool SmiChild::reaped_within(int64_t ns) {
  const int64_t until = monotonic_ns() + ns;
  while (!reaped()) {
    if (monotonic_ns() >= until) return false;
    ::usleep(500);
  }
  return true;
}

void SmiChild::end() {
  if (fd_ >= 0) ::close(fd_), fd_ = -1;
  if (reaped()) return;
  ::kill(pid_, SIGTERM);
  if (reaped_within(50 * kMillisecond)) return;
  ::kill(pid_, SIGKILL);
  reaped_within(50 * kMillisecond);
}

bool is_smi_child(pid_t pid) {
  const std::lock_guard lock(children().lock);
  return children().pids.contains(pid);
}

Result<SmiOutput> run_smi(const std::vector<std::string>& command, int64_t timeout_ns) {
  SmiChild child;
  if (auto started = child.start(command); !started) return started.error();
  SmiOutput output;
  const int64_t until = monotonic_ns() + timeout_ns;
  while (child.read(output.text)) {
    const int64_t left = until - monotonic_ns();
    if (left <= 0) return Error{fmt::format("nvidia-smi did not answer within {} s", timeout_ns / 1'000'000'000)};
    if (output.text.size() > kMaxOutput) return Error{"nvidia-smi printed more than 4 MiB"};
    pollfd waiting{child.fd(), POLLIN, 0};
    ::poll(&waiting, 1, static_cast<int>(std::min<int64_t>(left / kMillisecond + 1, 1000)));
  }
  while (!child.reaped() && monotonic_ns() < until) ::usleep(200);
  output.exit_status = child.exit_status();
  return output;
}

}  // namespace profgpu
