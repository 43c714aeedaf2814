// The command that alerts start: a few at once, each with a time limit, without leaving zombies.
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
  /// `limit_ns`: then its process group gets SIGTERM, and two seconds later SIGKILL. `tell` gets a line about each
  /// failure.
  AlertCommand(std::string command, int64_t limit_ns, std::function<void(const std::string&)> tell);
  ~AlertCommand();
  AlertCommand(const AlertCommand&) = delete;
  AlertCommand& operator=(const AlertCommand&) = delete;

  /// Starts now, or when another has ended. Drops the oldest if too many wait.
  void run(const AlertNotice& notice);
  /// Collects commands that ended, ends those that take too long, starts waiting ones.
  void tend();
  [[nodiscard]] bool busy() const { return !running_.empty() || !waiting_.empty(); }
  [[nodiscard]] int64_t failures() const { return failures_; }
  /// Waits for running commands, then kills them; does not start waiting ones.
  void finish(int64_t patience_ns);

  static constexpr size_t kMaxAtOnce = 4, kMaxWaiting = 64;

 private:
  struct Running {
    pid_t pid;
    std::string name;         // of the alert
    int64_t deadline_ns;      // monotonic; for the next signal
    bool terminated = false;  // it got SIGTERM
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
