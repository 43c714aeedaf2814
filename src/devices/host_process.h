// What the host knows about a process that a driver names: its owner, its command, its use of CPU and memory, and the
// container or job it belongs to. All of it comes from /proc; what cannot be read is absent.
//
// Texts are as the process wrote them: whatever displays them must sanitize them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/sample.h"

namespace profgpu {

/// From the text of /proc/PID/cgroup, version 1 or 2.
Placement placement_of(std::string_view cgroup);

/// Its rank and world size are those that torchrun, MPI or Slurm gave it.
struct HostProcess : ProcessOrigin {
  int64_t pid = 0;                     ///< as asked for
  int64_t parent = 0;                  ///< the parent's pid in the /proc at hand; 0: not known
  int64_t visible_pid = 0;             ///< its pid in the /proc at hand; 0: not known there
  bool inferred = false;               ///< visible_pid is a conclusion, not reported by the kernel
  std::string unknown;                 ///< why nothing is known: "pid of the host, outside this container"
  std::string comm;                    ///< the kernel's short name, at most 15 bytes
  std::vector<std::string> arguments;  ///< the command line, see masked_words(); empty for kernel threads and zombies
  std::optional<int64_t> start_ns;     ///< Unix time, to the clock tick (10 ms)
  std::optional<double> cpu_pct;       ///< since the previous look; 100 is one core
  std::optional<int64_t> memory_bytes; ///< resident
  std::optional<int64_t> threads;
  std::optional<int64_t> local_rank;

  /// The program's name for display: the command without its folders, else comm, else empty.
  [[nodiscard]] std::string command() const;
  /// The whole command line, else comm, else empty.
  [[nodiscard]] std::string command_line() const;
  /// "docker 3f2a…, pod 1b2c3d4e, job 4711.0, rank 3/8": the known parts.
  [[nodiscard]] std::string place() const;
  /// What recordings keep; null if none of it is known.
  [[nodiscard]] std::shared_ptr<const ProcessOrigin> origin() const;
};
/// What a recording has of a process; nothing that could make it look like one running here.
HostProcess recorded_process(const ProcessSample& sample);

/// This machine's name; empty if unknown.
std::string host_name();

/// Looks processes up and remembers what the next look needs. For one thread.
class HostProcesses {
 public:
  /// `proc_root`: where /proc is; empty: PROFGPU_PROC_ROOT, else /proc.
  explicit HostProcesses(std::string proc_root = {});

  /// `holders_of`: what such a process has open ("/dev/nvidia-uvm"); used where the driver's pids are of another
  /// namespace. `alone`: the driver names no other process.
  HostProcess look(int64_t pid, std::string_view holders_of = {}, bool alone = false);
  /// The process with that pid in the /proc at hand.
  HostProcess look_here(int64_t visible_pid);
  /// Whether our pids are the host's own.
  [[nodiscard]] bool sees_host() const { return sees_host_; }

 private:
  struct Look {
    int64_t start_ticks = 0, cpu_ticks = 0, at_ns = 0;
  };
  std::string user_name(int64_t uid);
  int64_t find_by_namespace(int64_t pid);
  int64_t only_holder(std::string_view path) const;
  [[nodiscard]] bool holds(const std::string& folder, std::string_view path) const;
  void resolve(HostProcess& process, std::string_view holders_of, bool alone);
  void read(HostProcess& process);
  void read_stat(HostProcess& process, const std::string& folder);
  void read_status(HostProcess& process, const std::string& folder);

  std::string root_;
  bool sees_host_ = true;
  std::string plain_namespace_;        // the namespace of processes with a single pid; empty: not known
  int64_t boot_unix_ns_ = 0;
  std::map<int64_t, std::string> users_;
  std::map<int64_t, Look> looks_;
  std::map<int64_t, int64_t> inner_;   // pids in namespaces inside ours to ours; 0: ambiguous
  int64_t inner_until_ns_ = 0;         // monotonic; valid until then
};

}  // namespace profgpu
