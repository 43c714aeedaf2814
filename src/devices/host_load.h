// How busy this machine's CPUs and memory are, from /proc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace profgpu {

/// What cannot be read is absent.
struct HostLoad {
  int64_t time_ns = 0;                 ///< Unix time of the look; 0: never looked
  std::optional<double> cpu_pct;       ///< of all CPUs together, since the previous look
  std::optional<double> memory_bytes;
  std::optional<double> memory_used_bytes;   ///< what programs could not have without swapping
  std::optional<double> swap_bytes, swap_used_bytes;
  std::optional<double> load_1, load_5, load_15;   ///< means over so many minutes of what runs or waits for a disk
  std::optional<int64_t> cpus;         ///< online
};

/// Looks, and remembers what the next look needs. For one thread.
class HostLoadWatch {
 public:
  /// `proc_root`: where /proc is; empty: PROFGPU_PROC_ROOT, else /proc.
  explicit HostLoadWatch(std::string proc_root = {});
  HostLoad look();

 private:
  void read_cpu(HostLoad& load);
  void read_memory(HostLoad& load) const;
  void read_averages(HostLoad& load) const;

  std::string root_;
  int64_t total_ = 0, idle_ = 0;       // ticks at the previous look; total 0: none
};

}  // namespace profgpu
