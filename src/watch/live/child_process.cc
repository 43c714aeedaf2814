#include "watch/live/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "base/decimal.h"
#include "base/text.h"
#include "devices/nvidia_smi_child.h"
#include "devices/system_files.h"

namespace profgpu {

namespace {

// Not the command's: faults, those about our own output, children, those of the C library, and those that cannot be
// blocked.
bool is_own(int signal) {
  constexpr int kOwn[] = {SIGKILL, SIGSTOP, SIGCHLD, SIGPIPE, SIGXFSZ, SIGTTIN, SIGTTOU,
                          SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGTRAP};
  return (signal > SIGSYS && signal < SIGRTMIN) || std::ranges::find(kOwn, signal) != std::end(kOwn);
}

bool is_ignored(int signal) {
  struct sigaction action{};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// Descriptors that a program started by us would inherit.
std::vector<int> open_descriptors() {
  std::vector<int> out;
  for (const std::string& name : folder_names("/proc/self/fd")) {
    const int fd = std::atoi(name.c_str());
    if (const int flags = ::fcntl(fd, F_GETFD); flags >= 0 && (flags & FD_CLOEXEC) == 0) out.push_back(fd);
  }
  return out.empty() ? std::vector<int>{0, 1, 2} : out;   // there may be no /proc
}

// Runs in the child, which shares our memory until it executes the command: changes only its own signal settings.
// execvpe() rather than posix_spawn(), which leaves two signals ignored and, unlike shells, env and nohup, does not
// pass scripts without a first line to sh.
[[noreturn]] void become(char* const* arguments, char* const* variables, const sigset_t& defaults,
                         bool ignore_children, const sigset_t& mask, int problem) {
  for (int s = 1; s < NSIG; ++s)
    if (sigismember(&defaults, s) == 1) ::signal(s, SIG_DFL);
  if (ignore_children) ::signal(SIGCHLD, SIG_IGN);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  ::execvpe(arguments[0], arguments, variables);
  const int error = errno;
  ::_exit(::write(problem, &error, sizeof error) == sizeof error ? 127 : 126);
}

// As the kernel expects lists of words; valid as long as the words are.
std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& w : words) out.push_back(const_cast<char*>(w.c_str()));
  out.push_back(nullptr);
  return out;
}

bool exists(const std::string& path) {
  struct stat s{};
  return ::lstat(path.c_str(), &s) == 0;
}

Error not_found(const std::string& name) {
  const bool is_path = name.find('/') != std::string::npos;
  if (name.empty()) return {"the command is an empty word"};
  if (is_path && exists(name)) return {name + ": its interpreter or loader is missing", "its first line names it"};
  const std::string message = name + (is_path ? ": no such file" : ": command not found");
  if (name.find(' ') != std::string::npos)
    return {message, "do not quote a command together with its arguments: profgpu -- " + name};
  if (is_path) return {message};
  return {message, exists(name) ? "to run the file in this folder: profgpu -- ./" + name : name.ends_with(".py") ? "there is no such file here"
                                                                                          : "no folder of PATH has it"};
}

StartFailure start_failure(const std::string& name, int error) {
  if (error == ENOENT || error == ENOTDIR) return {127, not_found(name)};
  struct stat s{};
  if (error != EACCES || ::stat(name.c_str(), &s) != 0)
    return {126, {fmt::format("{}: {}", name, std::strerror(error))}};
  if (S_ISDIR(s.st_mode)) return {126, {name + ": is a folder", "name the program in it"}};
  return {126, {name + ": is not executable", "chmod +x " + name + ", or python3 " + name}};
}

bool requests_end(int signal) { return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT; }

}  // namespace

CommandRunner::CommandRunner(bool pipe_signal_ignored) : inherited_(open_descriptors()) {
  sigemptyset(&held_);
  // Signals that nohup or a shell had us ignore stay ignored, by us and by the command.
  for (int s = 1; s <= SIGRTMAX; ++s)
    if (!is_own(s) && !is_ignored(s)) sigaddset(&held_, s);
  defaults_ = held_;
  if (!pipe_signal_ignored) sigaddset(&defaults_, SIGPIPE);
  // With SIGCHLD ignored, the kernel would discard the exit status.
  ignore_children_ = is_ignored(SIGCHLD);
  if (ignore_children_) ::signal(SIGCHLD, SIG_DFL);
  sigaddset(&held_, SIGCHLD);
  ::pthread_sigmask(SIG_BLOCK, &held_, &before_);
  // Processes that the command leaves behind become our children, so that we still know whose they are.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

CommandRunner::~CommandRunner() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

std::optional<StartFailure> CommandRunner::start(const std::vector<std::string>& words) {
  for (const int fd : open_descriptors())
    if (std::find(inherited_.begin(), inherited_.end(), fd) == inherited_.end()) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  const std::vector<char*> arguments = pointers(words);
  const std::vector<char*> variables = environment_ ? pointers(*environment_) : std::vector<char*>();
  int problem[2];
  if (::pipe2(problem, O_CLOEXEC) != 0) return start_failure(words[0], errno);
  // None of our handlers may run in the child.
  sigset_t all, now;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &now);
  begun_ns_ = monotonic_ns();
  // NOLINTNEXTLINE: vfork() copies nothing, so the start is fast even with a driver in memory.
  const pid_t pid = ::vfork();
  if (pid == 0)
    become(arguments.data(), environment_ ? variables.data() : environ, defaults_, ignore_children_, before_,
           problem[1]);
  int error = pid < 0 ? errno : 0;
  ::pthread_sigmask(SIG_SETMASK, &now, nullptr);
  ::close(problem[1]);
  if (pid > 0 && ::read(problem[0], &error, sizeof error) == sizeof error) ::waitpid(pid, nullptr, 0);
  ::close(problem[0]);
  pid_ = error == 0 ? pid : 0;
  return error == 0 ? std::nullopt : std::optional(start_failure(words[0], error));
}

// Whether the command has ended.
bool CommandRunner::reap(CommandEnd& end) {
  int status = 0;
  while (::waitpid(pid_, &status, WNOHANG | WUNTRACED | WCONTINUED) == pid_) {
    if (WIFSTOPPED(status)) {
      stopped_by_ = WSTOPSIG(status);
    } else if (WIFCONTINUED(status)) {
      stopped_by_ = 0;
    } else {
      end.wall_ns = monotonic_ns() - begun_ns_;
      end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      end.exit_code = end.signal != 0 ? 128 + end.signal : WEXITSTATUS(status);
      return true;
    }
  }
  // Processes that the command left behind and that have ended. A session leader may be a backend's (nvidia-smi), which
  // collects its status itself.
  siginfo_t info{};
  while (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0 && info.si_pid != pid_ &&
         ::getsid(info.si_pid) != info.si_pid)
    ::waitpid(info.si_pid, nullptr, WNOHANG);
  return false;
}

void CommandRunner::take(const siginfo_t& info, CommandEnd& end) {
  const int signal = info.si_signo;
  if (requests_end(signal)) end.interrupted = true;
  if (signal == SIGTSTP) stop_requested_ = true;
  // The kernel signals the whole foreground group of the terminal, which includes the command unless it left the group.
  const bool has_it = info.si_code > 0 ? ::getpgid(pid_) == ::getpgrp() : info.si_pid == pid_;
  if (has_it && signal != SIGCONT) return;
  if (info.si_code == SI_QUEUE) ::sigqueue(pid_, signal, info.si_value);
  else ::kill(pid_, signal);
}

// Only for job control: a command that is stopped from outside does not stop us.
void CommandRunner::stop_with_command() {
  const bool job_control = stopped_by_ == SIGTTIN || stopped_by_ == SIGTTOU || (stopped_by_ != 0 && stop_requested_);
  if (!job_control) return;
  stop_requested_ = false;
  stopped_by_ = 0;
  ::raise(SIGSTOP);
}

CommandEnd CommandRunner::wait() {
  CommandEnd end;
  stopped_by_ = 0;
  stop_requested_ = false;
  siginfo_t info{};
  for (bool ended = reap(end); !ended;) {
    const int signal = ::sigwaitinfo(&held_, &info);
    if (signal == SIGCHLD)
      ended = reap(end);
    else if (signal > 0)
      take(info, end);
    if (!ended) stop_with_command();
  }
  pid_ = 0;
  // Signals that came too late for the command are not for us either.
  const timespec at_once{};
  while (::sigtimedwait(&held_, &info, &at_once) > 0) end.interrupted = end.interrupted || requests_end(info.si_signo);
  return end;
}

namespace {

constexpr size_t kMaxKnown = 4096;
constexpr int kDeepest = 256;  // ancestors of a process; more would be an inconsistent /proc

// Our own pid in that /proc, which may be an outer namespace's.
int64_t own_pid(const std::string& proc) {
  char target[32];
  const ssize_t n = ::readlink((proc + "/self").c_str(), target, sizeof target);
  const auto pid = n > 0 ? whole_number(std::string_view(target, static_cast<size_t>(n))) : std::nullopt;
  return pid.value_or(::getpid());
}

}  // namespace

std::string_view compute_file(std::string_view vendor) {
  return vendor == "NVIDIA" ? "/dev/nvidia-uvm" : vendor == "AMD" ? "/dev/kfd" : "";
}

std::optional<bool> descends_from(int64_t pid, int64_t ancestor, const std::string& proc) {
  for (int i = 0; i < kDeepest && pid > 1; ++i) {
    const auto text = file_text(fmt::format("{}/{}/stat", proc, pid));
    const auto stat = text ? process_stat(*text) : std::nullopt;
    if (!stat) return i == 0 ? std::nullopt : std::optional(false);
    if (stat->number(4) == ancestor) return true;
    pid = stat->number(4).value_or(0);
  }
  return false;
}

void RunProcesses::see(const Reading& reading) {
  for (const ProcessSample& p : reading.processes) {
    if (known_.contains(p.pid) || known_.size() >= kMaxKnown) continue;
    if (!host_) host_.emplace();
    const std::string& vendor = devices_[reading.device].vendor;
    const HostProcess host = host_->look(p.pid, compute_file(vendor), reading.processes.size() == 1);
    WatchedProcess& process = known_[p.pid];
    process.visible_pid = host.visible_pid;
    process.unknown = host.unknown;
    process.command = host.arguments.empty() ? host.comm : host.command_line();
    const std::string proc = SystemRoots::from_environment().proc;
    if (host.visible_pid > 0) process.of_command = descends_from(host.visible_pid, own_pid(proc), proc);
  }
}

size_t processes_left() {
  siginfo_t info{};
  if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return 0;  // no child at all
  std::map<int64_t, std::vector<int64_t>> children;
  const int64_t self = ::getpid();
  for (const int64_t pid : process_ids("/proc")) {
    const auto text = file_text(fmt::format("/proc/{}/stat", pid));
    const auto stat = text ? process_stat(*text) : std::nullopt;
    if (!stat || stat->state() == 'Z') continue;
    if (!is_smi_child(static_cast<pid_t>(pid))) children[stat->number(4).value_or(0)].push_back(pid);
  }
  size_t count = 0;
  std::vector<int64_t> todo = children[self];
  while (!todo.empty()) {
    const int64_t pid = todo.back();
    todo.pop_back();
    ++count;
    const std::vector<int64_t>& below = children[pid];
    todo.insert(todo.end(), below.begin(), below.end());
  }
  return count;
}

}  // namespace profgpu
