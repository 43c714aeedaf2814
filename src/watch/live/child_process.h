// The command that a user has us run: our standard streams, terminal, environment and signal settings are its own, and
// its end is ours.
//
// Signals that reach only us are passed on; those from the terminal reach the command by themselves. We never end it:
// whatever it does about Ctrl-C is its own affair (Ctrl-\ ends what ignores Ctrl-C). When it stops, we stop, and
// continue with it.
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
  int exit_code = 0;         ///< as a shell has it: its own, or 128 + n if signal n ended it
  int signal = 0;            ///< that ended it; 0: none
  bool interrupted = false;  ///< somebody wanted an end while it ran: Ctrl-C, SIGTERM, SIGHUP or SIGQUIT
  int64_t wall_ns = 0;
};

/// Why a command could not be started.
struct StartFailure {
  int exit_code = 0;  ///< as a shell has it: 127 there is no such command, 126 it cannot be run
  Error error;
};

/// Runs one command after the other. Make it before anything that opens files or starts threads for us: what is open
/// then is what the command gets, and threads started later never see a signal.
class CommandRunner {
 public:
  /// `pipe_signal_ignored`: whether whoever started us ignored SIGPIPE, which the command then does too.
  explicit CommandRunner(bool pipe_signal_ignored);
  /// Signals act on us again.
  ~CommandRunner();
  CommandRunner(const CommandRunner&) = delete;
  CommandRunner& operator=(const CommandRunner&) = delete;

  /// "NAME=value" each: what commands get instead of our own environment.
  void set_environment(std::vector<std::string> variables) { environment_ = std::move(variables); }
  /// The first word is looked for in PATH. An empty list is not allowed.
  std::optional<StartFailure> start(const std::vector<std::string>& words);
  /// Until the command itself ends; what it leaves behind runs on.
  CommandEnd wait();
  /// What signals did before: for ppoll(), so that a wait can be interrupted as ever.
  [[nodiscard]] const sigset_t& mask_before() const { return before_; }

 private:
  bool reap(CommandEnd& end);
  void take(const siginfo_t& info, CommandEnd& end);
  void stop_with_command();

  sigset_t held_{}, before_{};
  sigset_t defaults_{};           // what the command gets back as it was before us
  bool ignore_children_ = false;  // whoever started us ignored SIGCHLD
  std::optional<std::vector<std::string>> environment_;
  std::vector<int> inherited_;    // descriptors that are the command's too
  pid_t pid_ = 0;
  int64_t begun_ns_ = 0;
  int stopped_by_ = 0;       // the signal that the command is stopped by; 0: it runs
  bool stop_asked_ = false;  // we got SIGTSTP
};

// The processes that devices name during a run: what each one is, and whether the command started it.

struct WatchedProcess {
  int64_t visible_pid = 0;         ///< in our /proc; 0: not known there
  std::string command;             ///< its words; empty: not known
  std::string unknown;             ///< why nothing is known
  std::optional<bool> of_command;  ///< started by the command, at whatever distance; unknown if it cannot be seen
};

/// Looks each process up once, when a device first names it: later it may be gone. For one thread at a time.
class RunProcesses {
 public:
  explicit RunProcesses(const std::vector<DeviceInfo>& devices) : devices_(&devices) {}
  void see(const Reading& reading);
  [[nodiscard]] const std::map<int64_t, WatchedProcess>& known() const { return known_; }

 private:
  const std::vector<DeviceInfo>* devices_;
  std::optional<HostProcesses> host_;  // not before it is needed: it reads half a dozen files
  std::map<int64_t, WatchedProcess> known_;
};

/// Whether `ancestor` is among the parents of `pid`; nullopt if the process cannot be seen.
std::optional<bool> descends_from(int64_t pid, int64_t ancestor, const std::string& proc = "/proc");

/// How many processes that we started, or adopted, still run; nvidia-smi, which a backend runs, aside.
size_t processes_left();

/// What programs that compute on a device of this vendor have open, and tools that only watch have not.
std::string_view compute_file(std::string_view vendor);

}  // namespace profgpu
