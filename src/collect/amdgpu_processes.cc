#include "collect/amdgpu_processes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/decimal.h"
#include "collect/system_files.h"

namespace profgpu {
namespace {

/// The number in "key N" lines of a node's properties.
std::optional<int64_t> property(std::string_view text, std::string_view key) {
  for (const std::string_view line : pieces_of(text, '\n'))
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ')
      return whole_number(without_blanks(line.substr(key.size())));
  return std::nullopt;
}

}  // namespace

AmdgpuProcesses::AmdgpuProcesses(const std::string& sys) : folder_(sys + "/class/kfd/kfd") {
  for (const std::string& node : folder_names(folder_ + "/topology/nodes")) {
    const std::string path = folder_ + "/topology/nodes/" + node;
    const std::string gpu_id = file_line(path + "/gpu_id");
    const std::string properties = file_text(path + "/properties", 16 << 10).value_or("");
    const auto location = property(properties, "location_id"), domain = property(properties, "domain");
    // Processors are nodes too; their number is 0.
    if (gpu_id.empty() || gpu_id == "0" || !location || *location < 0 || *location > 0xffff) continue;
    const auto bits = static_cast<uint32_t>(*location);
    gpu_ids_[fmt::format("{:04x}:{:02x}:{:02x}.{:x}", static_cast<uint32_t>(domain.value_or(0)), bits >> 8,
                         bits >> 3 & 31, bits & 7)] = gpu_id;
  }
}

void AmdgpuProcesses::add(const std::string& pci, std::vector<ProcessSample>& processes) const {
  const auto id = gpu_ids_.find(pci);
  if (id == gpu_ids_.end()) return;
  for (const std::string& name : folder_names(folder_ + "/proc")) {
    const auto pid = whole_number(name);
    const auto bytes = whole_number(file_line(fmt::format("{}/proc/{}/vram_{}", folder_, name, id->second)));
    if (!pid || *pid < 1 || !bytes || *bytes < 0) continue;
    auto at = std::find_if(processes.begin(), processes.end(), [&](const auto& p) { return p.pid == *pid; });
    // A program that computes opens every device, also those that it leaves alone.
    if (at == processes.end() && *bytes == 0) continue;
    if (at == processes.end()) {
      processes.push_back({});
      at = std::prev(processes.end());
      at->pid = *pid;
    }
    at->type = 'C';
    at->memory_bytes = std::max(at->memory_bytes.value_or(0), *bytes);
  }
}

}  // namespace profgpu
