// The command that alerts start: a few at once, each with a time limit, none left behind as a zombie.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "watch/monitor/alert_notice.h"

namespace profgpu {

/// For one thread. The command is a line for /bin/sh; it gets alert_row() on its standard input and alert_variables()
/// in its environment, and its output goes to our standard error.
class AlertCommand {
 public:
  /// `limit_ns`: when it is asked to end (SIGTERM to its process group; two seconds later SIGKILL). `tell` gets a line
  /// about each that fails.
  AlertCommand(std::string command, int64_t limit_ns, std::function<void(const std::string&)> tell);
  ~AlertCommand();
  AlertCommand(const AlertCommand&) = delete;
  AlertCommand& operator=(const AlertCommand&) = delete;

  /// At once, or when one of the others has ended. Of those that wait, the oldest gives way.
  void run(const AlertNotice& notice);
  /// Takes the status of those that ended, ends those that take too long, starts those that wait.
  void tend();
  [[nodiscard]] bool busy() const { return !running_.empty() || !waiting_.empty(); }
  [[nodiscard]] int64_t failures() const { return failures_; }
  /// Gives those that run so long to end, then kills them; those that wait are not started.
  void finish(int64_t patience_ns);

  static constexpr size_t kMaxAtOnce = 4, kMaxWaiting = 64;

 private:
  struct Running {
    pid_t pid;
    std::string name;         // of the alert
    int64_t deadline_ns;      // monotonic; when it is sent the next signal
    bool asked_to_end = false;
  };
  Status start(const AlertNotice& notice);
  bool reap(const Running& one);
  void fail(const std::string& text);

  const std::string command_;
  const int64_t limit_ns_;
  const std::function<void(const std::string&)> tell_;
  std::vector<Running> running_;
  std::deque<AlertNotice> waiting_;
  int64_t failures_ = 0;
};

}  // namespace profgpu
