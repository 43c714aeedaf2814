// The processes that devices name during a run: what each one is, and whether the command started it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "devices/host_process.h"
#include "trace/sample.h"

namespace profgpu {

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
