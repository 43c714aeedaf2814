#include "watch/top/session.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/clock.h"
#include "base/decimal.h"
#include "base/descriptor.h"
#include "base/start_up_memory.h"
#include "devices/host_process.h"
#include "devices/system_files.h"

namespace profgpu {
namespace {

// Start times are relative to the time of boot, which is in whole seconds and may be rounded differently each time.
constexpr int64_t kSameStart_ns = 1'500'000'000;

Error refused(const ProcessCommand& command, int error) {
  if (error == EPERM || error == EACCES) return {command.what + ": not permitted", "try as root or the process's owner"};
  return {command.what + ": " + (error == ESRCH ? "it has ended" : std::strerror(error))};
}

// On Linux, each thread has its own nice value. 0, else errno.
int set_nice(int64_t pid, int nice) {
  const std::vector<std::string> tasks = folder_names(fmt::format("/proc/{}/task", pid));
  int error = tasks.empty() ? ESRCH : 0;
  for (const std::string& task : tasks) {
    const auto tid = static_cast<id_t>(whole_number(task).value_or(0));
    if (::setpriority(PRIO_PROCESS, tid, nice) != 0 && errno != ESRCH) error = errno;   // ESRCH: the thread has ended
  }
  return error;
}

}  // namespace

Status carry_out(const ProcessCommand& command) {
  if (command.pid <= 1) return Error{command.what + ": this process must be left alone"};
  // Keeps the pid from being reused. Old kernels do not have it.
  const Descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(command.pid), 0)));
  const int opened = errno;
  if (!handle && opened != ENOSYS) return refused(command, opened);
  const HostProcess now = HostProcesses("/proc").look_here(command.pid);
  const bool same = now.start_ns && command.start_ns && std::llabs(*now.start_ns - *command.start_ns) < kSameStart_ns;
  if (!same) return Error{command.what + ": it has ended, and another process may have its pid"};
  if (command.signal == 0) {
    const int error = set_nice(command.pid, command.nice);
    return error == 0 ? ok() : Status(refused(command, error));
  }
  const int64_t sent = handle ? ::syscall(SYS_pidfd_send_signal, handle.get(), command.signal, nullptr, 0)
                              : ::kill(static_cast<pid_t>(command.pid), command.signal);
  return sent == 0 ? ok() : Status(refused(command, errno));
}

namespace {

constexpr int64_t kFirstFrame_ns = 100'000'000;       // at the latest, with the values known then
constexpr int64_t kBetweenFrames_ns = 15'000'000;     // faster news share a frame
constexpr int64_t kShortestRefresh_ns = 250'000'000,
                  kLongestRefresh_ns = 1'000'000'000;  // of times and troubles, without news
constexpr int64_t kStart_ns = 1'000'000'000;          // all that it takes to start has been done by then

// Set by signal handlers. wake_fd must outlive a source's threads, so it is never closed.
std::atomic<int> end_signal{0};
std::atomic<bool> stop_requested{false}, continued{false}, resized{false};
int wake_fd = -1;

void wake() {
  const uint64_t one = 1;
  if (::write(wake_fd, &one, sizeof one) < 0) return;   // full: a wake-up is pending anyway
}

void on_signal(int signal) {
  const int before = errno;
  if (signal == SIGWINCH) resized = true;
  else if (signal == SIGTSTP) stop_requested = true;
  else if (signal == SIGCONT) continued = true;
  else end_signal = signal;
  wake();
  errno = before;
}

void listen(int signal) {
  struct sigaction action{}, before{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(signal, nullptr, &before);
  if (before.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);
}

/// Between the terminal and the model.
class Session {
 public:
  Session(LiveSource& source, const SessionOptions& options, Screen& screen)
      : source_(source), options_(options), screen_(screen), model_(source.interval_ns(), options.order) {}

  SessionEnd run();

 private:
  void wait(int64_t until_ns);
  void take();
  void draw();
  bool read_keys();
  void keep_to_interval();
  bool obey_signals();
  void stop_for_a_while();
  void look_for_terminal(const pollfd& input);

  LiveSource& source_;
  const SessionOptions& options_;
  Screen& screen_;
  TopModel model_;
  Frame frame_;
  bool news_ = false, stale_ = true;   // stale: the screen no longer shows the model
};

void Session::take() {
  LiveView view = source_.view();
  if (const std::string notice = options_.notice ? options_.notice() : ""; !notice.empty())
    view.lines.insert(view.lines.begin(), notice);
  model_.take(std::move(view));
  if (model_.page() == TopPage::kTopology) model_.take(source_.topology());
  news_ = false;
  stale_ = true;
}

void Session::draw() {
  frame_ = top_frame(model_, screen_.width(), screen_.height());
  screen_.draw(frame_);
  stale_ = false;
}

// A terminal that has gone sends no signal to programs that ignore it.
void Session::look_for_terminal(const pollfd& input) {
  if ((input.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0 && end_signal == 0) end_signal = SIGHUP;
}

void Session::wait(int64_t until_ns) {
  const int64_t left_ns = std::max<int64_t>(until_ns - monotonic_ns(), 0);
  pollfd fds[] = {{STDIN_FILENO, POLLIN, 0}, {wake_fd, POLLIN, 0}};
  if (::poll(fds, 2, static_cast<int>((left_ns + 999'999) / 1'000'000)) <= 0) return;
  look_for_terminal(fds[0]);
  uint64_t count = 0;
  if ((fds[1].revents & POLLIN) != 0 && ::read(wake_fd, &count, sizeof count) == sizeof count) news_ = true;
}

bool Session::read_keys() {
  while (const auto key = screen_.key()) {
    stale_ = true;
    if (key->kind == KeyPress::Kind::kClick) {
      const Hit* hit = frame_.hit(key->x, key->y);
      if (hit && !model_.click(*hit)) return false;
    } else if (!model_.press(*key)) {
      return false;
    }
    if (const auto command = model_.next_command()) {
      const Status done = carry_out(*command);
      model_.say(done ? command->what + ": done" : done.error().message);
    }
    if (model_.page() == TopPage::kTopology) model_.take(source_.topology());
  }
  keep_to_interval();
  return true;
}

void Session::keep_to_interval() {
  if (model_.interval_ns() != source_.interval_ns()) source_.set_interval(model_.interval_ns());
}

void Session::stop_for_a_while() {
  screen_.suspend();
  struct sigaction plain{}, ours{};
  plain.sa_handler = SIG_DFL;
  ::sigaction(SIGTSTP, &plain, &ours);
  ::raise(SIGTSTP);   // returns when we are continued
  ::sigaction(SIGTSTP, &ours, nullptr);
  continued = true;
}

bool Session::obey_signals() {
  if (end_signal != 0) return false;
  if (stop_requested.exchange(false)) stop_for_a_while();
  if (continued.exchange(false)) screen_.resume(), stale_ = true;
  if (resized.exchange(false)) screen_.resize(), stale_ = true;
  return true;
}

SessionEnd Session::run() {
  take();
  stale_ = false;   // no frame without figures if they come soon
  int64_t take_at = monotonic_ns() + kFirstFrame_ns, drawn_at = 0;
  int64_t release_at = monotonic_ns() + kStart_ns;
  while (true) {
    const bool soon = news_ && !stale_;
    wait(stale_ ? 0 : soon ? std::min(drawn_at + kBetweenFrames_ns, take_at) : take_at);
    if (!obey_signals() || !read_keys()) break;
    const int64_t now = monotonic_ns();
    if (now >= take_at || (news_ && now >= drawn_at + kBetweenFrames_ns)) {
      take();
      take_at = now + std::clamp(model_.interval_ns() * 5 / 4, kShortestRefresh_ns, kLongestRefresh_ns);
    }
    if (!stale_) continue;
    draw();
    drawn_at = monotonic_ns();
    if (drawn_at < release_at) continue;
    release_start_up_memory();
    release_at = INT64_MAX;
  }
  SessionEnd end;
  end.signal = end_signal;
  for (const LiveDevice& d : model_.view().devices) end.silent |= d.state == DeviceState::kNotAnswering;
  return end;
}

}  // namespace

Result<SessionEnd> run_session(LiveSource& source, const SessionOptions& options) {
  if (wake_fd < 0) wake_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) return Error{"too many open files"};
  source.start(wake);   // first, since its first answers take as long as opening the terminal
  auto screen = Screen::open(options.screen);
  if (!screen) return screen.error();
  // After the screen, which installs handlers for some of them.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT}) listen(signal);
  return Session(source, options, **screen).run();
}

}  // namespace profgpu
