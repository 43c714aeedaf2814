#include "watch/monitor/alert_command.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/clock.h"
#include "base/descriptor.h"

namespace profgpu {
namespace {

constexpr int64_t kBeforeKill_ns = 2'000'000'000;

// A nameless file with the text, which can be written without a reader. On failure errno says why.
Descriptor file_of(const std::string& text) {
  Descriptor file(::memfd_create("alert", MFD_CLOEXEC));
  const bool written = file && write_all(file.get(), text) == 0 && ::lseek(file.get(), 0, SEEK_SET) == 0;
  return written ? std::move(file) : Descriptor();
}

std::vector<std::string> environment_with(std::vector<std::string> variables) {
  for (char** v = environ; *v; ++v)
    if (!std::string_view(*v).starts_with("PROFGPU_ALERT")) variables.emplace_back(*v);
  return variables;
}

// In a process group of its own, with none of our descriptors or signal settings. 0, or errno's value.
int spawn(pid_t& pid, int input, char* const* arguments, char* const* environment) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  ::posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  const int error = ::posix_spawn(&pid, arguments[0], &files, &attributes, arguments, environment);
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  return error;
}

std::string end_text(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was ended by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return fmt::format("ended with status {}", WEXITSTATUS(status));
}

}  // namespace

AlertCommand::AlertCommand(std::string command, int64_t limit_ns, std::function<void(const std::string&)> tell)
    : command_(std::move(command)), limit_ns_(limit_ns), tell_(std::move(tell)) {}

AlertCommand::~AlertCommand() { finish(0); }

void AlertCommand::fail(const std::string& text) {
  ++failures_;
  tell_("--on-alert: " + text);
}

Status AlertCommand::start(const AlertNotice& notice) {
  const Descriptor input = file_of(alert_row(notice));
  if (!input) return Error{fmt::format("no memory for its input: {}", std::strerror(errno))};
  std::vector<std::string> variables = environment_with(alert_variables(notice));
  std::string words[] = {"/bin/sh", "-c", command_};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  std::vector<char*> environment;
  for (std::string& v : variables) environment.push_back(v.data());
  environment.push_back(nullptr);
  pid_t pid = 0;
  const int error = spawn(pid, input.get(), arguments, environment.data());
  if (error != 0) return Error{fmt::format("/bin/sh: {}", std::strerror(error))};
  running_.push_back({pid, notice.name, monotonic_ns() + limit_ns_});
  return ok();
}

void AlertCommand::run(const AlertNotice& notice) {
  if (waiting_.size() == kMaxWaiting) {
    fail(fmt::format("not run for {}: {} others wait", waiting_.front().name, kMaxWaiting));
    waiting_.pop_front();
  }
  waiting_.push_back(notice);
  tend();
}

// Whether it has ended.
bool AlertCommand::reap(const Running& one) {
  int status = 0;
  const pid_t got = ::waitpid(one.pid, &status, WNOHANG);
  if (got == 0 || (got < 0 && errno == EINTR)) return false;
  if (got == one.pid && status != 0) fail(fmt::format("the command for {} {}", one.name, end_text(status)));
  return true;
}

void AlertCommand::tend() {
  std::erase_if(running_, [&](const Running& one) { return reap(one); });
  const int64_t now = monotonic_ns();
  for (Running& one : running_) {
    if (now < one.deadline_ns) continue;
    if (!one.terminated) tell_(fmt::format("--on-alert: the command for {} takes too long; ending it", one.name));
    ::kill(-one.pid, one.terminated ? SIGKILL : SIGTERM);
    one.terminated = true;
    one.deadline_ns = now + kBeforeKill_ns;
  }
  while (!waiting_.empty() && running_.size() < kMaxAtOnce) {
    const AlertNotice notice = std::move(waiting_.front());
    waiting_.pop_front();
    if (Status started = start(notice); !started)
      fail(fmt::format("not run for {}: {}", notice.name, started.error().message));
  }
}

void AlertCommand::finish(int64_t patience_ns) {
  for (const AlertNotice& n : waiting_) fail(fmt::format("not run for {}: profgpu ends", n.name));
  waiting_.clear();
  const int64_t until = monotonic_ns() + patience_ns;
  while (tend(), !running_.empty() && monotonic_ns() < until) ::usleep(10'000);
  for (const Running& one : running_) {
    ::kill(-one.pid, SIGKILL);
    ::waitpid(one.pid, nullptr, 0);
    fail(fmt::format("the command for {} was killed: profgpu ends", one.name));
  }
  running_.clear();
}

}  // namespace profgpu
