// A child process whose output we read: nvidia-smi. It has a session of its own, so that Ctrl-C at the terminal does
// not reach it, and the kernel ends it when the thread that started it ends: it never outlives us.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace profgpu {

class SmiChild {
 public:
  SmiChild() = default;
  ~SmiChild() { end(); }
  SmiChild(const SmiChild&) = delete;
  SmiChild& operator=(const SmiChild&) = delete;

  /// Starts `command` (its first word is the program's path) with LC_ALL=C; output and errors come through fd().
  Status start(const std::vector<std::string>& command);
  [[nodiscard]] bool running() const { return pid_ > 0; }
  /// What it printed, not blocking; -1 once it has closed its output.
  [[nodiscard]] int fd() const { return fd_; }
  /// Appends what is there to `text`. False: the output has ended.
  bool read(std::string& text);
  /// Ends it and waits a little. A process that is stuck in the driver stays: running() is then still true and reaped()
  /// will tell when it has gone.
  void end();
  /// True if it has ended; its exit status is then in exit_status() (128 + signal as a shell has it).
  bool reaped();
  [[nodiscard]] int exit_status() const { return exit_status_; }

 private:
  bool reaped_within(int64_t ns);

  pid_t pid_ = 0;
  int fd_ = -1;
  int exit_status_ = 0;
};

/// Whether a child of ours with this number is one of those, and not yet reaped.
bool is_smi_child(pid_t pid);

struct SmiOutput {
  std::string text;
  int exit_status = 0;
};
/// Runs it to its end. An error if it takes longer than `timeout_ns`, or cannot be started.
Result<SmiOutput> run_smi(const std::vector<std::string>& command, int64_t timeout_ns);

}  // namespace profgpu
