#include "measure/memory_nodes.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "base/decimal.h"
#include "base/text.h"
#include "devices/system_files.h"

namespace profgpu {

std::vector<int> usable_cpus(std::string_view list) {
  cpu_set_t ours;
  CPU_ZERO(&ours);
  if (::sched_getaffinity(0, sizeof ours, &ours) != 0) return {};
  std::vector<int> cpus;
  for (const std::string_view range : pieces_of(list, ',')) {
    int first = 0, last = 0;
    const int found = std::sscanf(std::string(range).c_str(), "%d-%d", &first, &last);
    if (found == 1) last = first;
    for (int c = std::max(first, 0); found >= 1 && c <= last && c < CPU_SETSIZE; ++c)
      if (CPU_ISSET(c, &ours)) cpus.push_back(c);
  }
  return cpus;
}

std::vector<MemoryNode> memory_nodes() {
  const std::string folder = SystemRoots::from_environment().sys + "/devices/system/node/";
  std::vector<MemoryNode> nodes;
  for (const std::string& name : folder_names(folder)) {
    constexpr size_t kMostDigits = 6;
    if (!name.starts_with("node") || !all_digits(name.substr(4)) || name.size() > 4 + kMostDigits) continue;
    std::vector<int> cpus = usable_cpus(file_line(folder + name + "/cpulist"));
    if (!cpus.empty()) nodes.push_back({std::stoll(name.substr(4)), std::move(cpus)});
  }
  std::ranges::sort(nodes, {}, &MemoryNode::number);
  return nodes;
}

std::optional<int64_t> node_of_device(std::string_view pci_bus_id) {
  std::string address = lower_case(pci_bus_id);
  // CUDA writes the domain with eight digits where the kernel has four.
  constexpr size_t kDomainDigits = 4;
  if (const size_t domain = address.find(':'); domain != address.npos && domain > kDomainDigits)
    address.erase(0, domain - kDomainDigits);
  const auto node = whole_number(
      file_line(SystemRoots::from_environment().sys + "/bus/pci/devices/" + address + "/numa_node"));
  return node && *node >= 0 ? node : std::nullopt;
}

OnNode::OnNode(const MemoryNode& node) {
  CPU_ZERO(&before_);
  if (::sched_getaffinity(0, sizeof before_, &before_) != 0) return;
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (const int c : node.cpus) CPU_SET(c, &cpus);
  moved_ = ::sched_setaffinity(0, sizeof cpus, &cpus) == 0;
}

OnNode::~OnNode() {
  if (moved_) (void)::sched_setaffinity(0, sizeof before_, &before_);
}

}  // namespace profgpu
