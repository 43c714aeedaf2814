// Runs the user's command with our own standard streams, terminal, environment and signal settings, and ends as it
// does.
//
// Signals sent to us alone are passed on; those from the terminal reach the command anyway. We never end it: how it
// handles Ctrl-C is up to it (Ctrl-\ ends a command that ignores Ctrl-C). We stop and continue with it.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "devices/host_process.h"
#include "trace/sample.h"

namespace profgpu {

struct CommandEnd {
  int exit_code = 0;         ///< as in a shell: its own, or 128 + n if signal n ended it
  int signal = 0;            ///< that ended it; 0: none
  bool interrupted = false;  ///< by Ctrl-C, SIGTERM, SIGHUP or SIGQUIT
  int64_t wall_ns = 0;
};

/// Why a command could not be started.
struct StartFailure {
  int exit_code = 0;  ///< as in a shell: 127 no such command, 126 cannot be executed
  Error error;
};

/// Runs one command after the other. Create it before anything opens files or starts threads: commands inherit the
/// descriptors open then, and threads started later never get a signal.
class CommandRunner {
 public:
  /// `pipe_signal_ignored`: whether we were started with SIGPIPE ignored; the command then is too.
  explicit CommandRunner(bool pipe_signal_ignored);
  /// Restores our signal mask.
  ~CommandRunner();
  CommandRunner(const CommandRunner&) = delete;
  CommandRunner& operator=(const CommandRunner&) = delete;

  /// "NAME=value" each, instead of our own environment.
  void set_environment(std::vector<std::string> variables) { environment_ = std::move(variables); }
  /// Searches PATH for the first word. `words` must not be empty.
  std::optional<StartFailure> start(const std::vector<std::string>& words);
  /// Returns when the command itself has ended; processes that it leaves behind run on.
  CommandEnd wait();
  /// The signal mask from before us: for ppoll(), so that signals can interrupt a wait.
  [[nodiscard]] const sigset_t& mask_before() const { return before_; }

 private:
  bool reap(CommandEnd& end);
  void take(const siginfo_t& info, CommandEnd& end);
  void stop_with_command();

  sigset_t held_{}, before_{};
  sigset_t defaults_{};           // signals that the command gets with their default action
  bool ignore_children_ = false;  // we were started with SIGCHLD ignored
  std::optional<std::vector<std::string>> environment_;
  std::vector<int> inherited_;    // descriptors for the command
  pid_t pid_ = 0;
  int64_t begun_ns_ = 0;
  int stopped_by_ = 0;            // the signal that stopped the command; 0: it runs
  bool stop_requested_ = false;   // we got SIGTSTP
};

// The processes on devices during a run: what each one is, and whether it descends from the command.

struct WatchedProcess {
  int64_t visible_pid = 0;         ///< in our /proc; 0: not known there
  std::string command;             ///< its words; empty: not known
  std::string unknown;             ///< why nothing is known
  std::optional<bool> of_command;  ///< descends from the command; nullopt: not visible
};

/// Looks up each process once, when it first appears on a device: later it may be gone. For one thread at a time.
class RunProcesses {
 public:
  explicit RunProcesses(const std::vector<DeviceInfo>& devices) : devices_(devices) {}
  void see(const Reading& reading);
  [[nodiscard]] const std::map<int64_t, WatchedProcess>& known() const { return known_; }

 private:
  const std::vector<DeviceInfo>& devices_;
  std::optional<HostProcesses> host_;  // made when first needed: it reads half a dozen files
  std::map<int64_t, WatchedProcess> known_;
};

/// Whether `pid` descends from `ancestor`; nullopt if the process is not visible.
std::optional<bool> descends_from(int64_t pid, int64_t ancestor, const std::string& proc = "/proc");

/// Processes that we started or adopted and that still run, except a backend's nvidia-smi.
size_t processes_left();

/// The file that programs computing on a device of this vendor have open, and monitoring tools do not.
std::string_view compute_file(std::string_view vendor);

}  // namespace profgpu
