// The host's memory nodes (NUMA), and work bound to one of them.
#pragma once

#include <sched.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace profgpu {

struct MemoryNode {
  int64_t number = 0;
  std::vector<int> cpus;   ///< that this process may use: at least one
};
/// By number; without nodes of which no processor may be used. Empty: the kernel names none.
std::vector<MemoryNode> memory_nodes();

/// The node that the device at a PCI address ("0000:10:00.0") is attached to; none: the kernel does not say.
std::optional<int64_t> node_of_device(std::string_view pci_bus_id);

/// Processors of a list as the kernel writes it ("0-3,8"), without those that this process may not use.
std::vector<int> usable_cpus(std::string_view list);

/// While it is there, the calling thread runs on the node's processors: memory that it touches first is
/// the node's.
class OnNode {
 public:
  explicit OnNode(const MemoryNode& node);
  ~OnNode();
  OnNode(const OnNode&) = delete;
  OnNode& operator=(const OnNode&) = delete;

 private:
  cpu_set_t before_;
  bool moved_ = false;
};

}  // namespace profgpu
