#include "cli/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

#include "cli/exit_code.h"

namespace profgpu {
namespace {

std::atomic<const char*> partial_file{nullptr};
std::atomic<bool> line_shown{false};

// Nothing here but calls that a signal handler may make.
void leave(int signal) {
  if (const char* path = partial_file.load()) ::unlink(path);
  if (line_shown.load()) {
    constexpr char kClear[] = "\r\033[K";
    if (::write(STDERR_FILENO, kClear, sizeof kClear - 1) < 0) ::_exit(128 + signal);
  }
  ::_exit(signal == SIGINT ? static_cast<int>(ExitCode::kInterrupted) : 128 + signal);
}

}  // namespace

void install_interrupt_handler() {
  struct sigaction action{};
  action.sa_handler = leave;
  // A shell starts background jobs with SIGINT ignored; that is its wish.
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction before{};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);
  }
}

void remove_on_interrupt(const char* path) { partial_file = path; }
void clear_line_on_interrupt(bool on) { line_shown = on; }

}  // namespace profgpu
