// The kernel's files as text: /proc, /sys and /dev, or copies of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_text.h"
#include "base/text.h"

namespace profgpu {

/// Where the kernel's file systems are mounted: PROFGPU_PROC_ROOT, PROFGPU_SYSFS_ROOT and PROFGPU_DEV_ROOT where set,
/// as in a container that has the host's at /host/proc.
struct SystemRoots {
  std::string proc = "/proc", sys = "/sys", dev = "/dev";
  static SystemRoots from_environment();
};

/// The first line without blanks around it; empty if there is none.
std::string file_line(const std::string& path);
/// Names in a folder, sorted, without "." and ".."; empty if it cannot be read.
std::vector<std::string> folder_names(const std::string& path);
/// The pids in a folder such as /proc.
std::vector<int64_t> process_ids(const std::string& folder);
/// Where a library is: in LD_LIBRARY_PATH or a usual folder; empty: in none of them.
std::string find_library(std::string_view name);

/// /proc/PID/stat and /proc/PID/task/TID/stat. Views into the text.
struct ProcessStat {
  std::string_view name;
  std::vector<std::string_view> fields;   ///< from the third on, the state
  [[nodiscard]] char state() const { return fields.front().front(); }
  /// Numbered as in proc(5): 4 is the parent.
  [[nodiscard]] std::optional<int64_t> number(size_t field) const;
};
/// The name is in brackets and may contain anything, brackets and blanks too. nullopt: no name or no state.
std::optional<ProcessStat> process_stat(std::string_view text);

}  // namespace profgpu
