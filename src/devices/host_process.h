// What the host knows about a process that a driver names: whose it is, what it runs, what it costs the processor and
// memory, and which container or job it belongs to. All of it from /proc; what cannot be read is absent.
//
// Texts are as the process wrote them: whoever shows them makes them harmless.
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

struct HostProcess {
  int64_t pid = 0;                     ///< as asked for
  int64_t parent = 0;                  ///< the parent's number in the /proc at hand; 0: not known
  int64_t visible_pid = 0;             ///< its number in the /proc at hand; 0: not known there
  bool inferred = false;               ///< visible_pid is a conclusion, not what the kernel says
  std::string unknown;                 ///< why nothing is known: "pid of the host, outside this container"
  std::string user;                    ///< name, or number where it has none
  std::string comm;                    ///< the kernel's short name, at most 15 bytes
  std::vector<std::string> arguments;  ///< the command line; empty for kernel threads and the dead
  std::optional<int64_t> start_ns;     ///< Unix time, to the clock tick (10 ms)
  std::optional<double> cpu_pct;       ///< since the look before; 100 is one core
  std::optional<int64_t> memory_bytes; ///< resident
  std::optional<int64_t> threads;
  Placement placement;
  std::optional<int64_t> rank, local_rank, world_size;  ///< as torchrun, MPI or Slurm gave them

  /// A program's name for people: the command without its folders, else comm, else empty.
  [[nodiscard]] std::string command() const;
  /// All words of it, else comm, else empty.
  [[nodiscard]] std::string command_line() const;
  /// "docker 3f2a…, pod 1b2c3d4e, job 4711.0, rank 3/8": what is known of it.
  [[nodiscard]] std::string place() const;
  /// What recordings keep of it; null if none of that is known.
  [[nodiscard]] std::shared_ptr<const ProcessOrigin> origin() const;
};
/// What a recording says of a process; nothing by which it could be taken for one that runs here.
HostProcess recorded_process(const ProcessSample& sample);

/// This machine's name; empty if it has none.
std::string host_name();

/// Looks processes up, and remembers what the next look needs. For one thread.
class HostProcesses {
 public:
  /// `proc_root`: where /proc is; empty: PROFGPU_PROC_ROOT, else /proc.
  explicit HostProcesses(std::string proc_root = {});

  /// `holders_of`: what such a process has open ("/dev/nvidia-uvm"); used where the driver's numbers are another
  /// namespace's. `alone`: the driver names no other process.
  HostProcess look(int64_t pid, std::string_view holders_of = {}, bool alone = false);
  /// The process with that number in the /proc at hand.
  HostProcess look_here(int64_t visible_pid);
  /// Whether our process numbers are the host's own.
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
  std::string plain_namespace_;        // what processes with one number alone link to; empty: not known
  int64_t boot_unix_ns_ = 0;
  std::map<int64_t, std::string> users_;
  std::map<int64_t, Look> looks_;
  std::map<int64_t, int64_t> inner_;   // numbers in namespaces inside ours to ours
  int64_t inner_until_ns_ = 0;         // monotonic; so long they are believed
};

}  // namespace profgpu
