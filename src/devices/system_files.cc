#include "devices/system_files.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/decimal.h"
#include "base/environment.h"

namespace profgpu {

SystemRoots SystemRoots::from_environment() {
  return {environment("PROFGPU_PROC_ROOT", "/proc"), environment("PROFGPU_SYSFS_ROOT", "/sys"),
          environment("PROFGPU_DEV_ROOT", "/dev")};
}

std::string file_line(const std::string& path) {
  const std::string text = file_text(path, 4096).value_or("");
  return std::string(without_blanks(std::string_view(text).substr(0, text.find('\n'))));
}

std::vector<std::string> folder_names(const std::string& path) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
  if (!folder) return names;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<int64_t> process_ids(const std::string& folder) {
  std::vector<int64_t> pids;
  for (const std::string& name : folder_names(folder))
    if (const auto pid = all_digits(name) ? whole_number(name) : std::nullopt) pids.push_back(*pid);
  return pids;
}

std::string find_library(std::string_view name) {
  const std::string path = environment("LD_LIBRARY_PATH");
  std::vector<std::string_view> folders = pieces_of(path, ':');
  for (const char* usual : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
                            "/usr/local/lib", "/usr/local/nvidia/lib64", "/usr/lib/wsl/lib", "/run/opengl-driver/lib",
                            "/opt/rocm/lib"})
    folders.emplace_back(usual);
  for (const std::string_view folder : folders) {
    const std::string file = std::string(folder).append("/").append(name);
    if (::access(file.c_str(), R_OK) == 0) return file;
  }
  return "";
}

std::optional<int64_t> ProcessStat::number(size_t field) const {
  return field - 3 < fields.size() ? whole_number(fields[field - 3]) : std::nullopt;
}

std::optional<ProcessStat> process_stat(std::string_view text) {
  const size_t open = text.find('('), close = text.rfind(')');
  if (open == text.npos || close == text.npos || close < open) return std::nullopt;
  ProcessStat stat{text.substr(open + 1, close - open - 1), pieces_of(without_blanks(text.substr(close + 1)), ' ')};
  return stat.fields.empty() ? std::nullopt : std::optional(std::move(stat));
}

}  // namespace profgpu
