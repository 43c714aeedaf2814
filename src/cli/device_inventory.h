// What does not change of the devices: for `profgpu devices`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collect/backend.h"

namespace profgpu {

struct InventoryDevice {
  const DeviceInfo* info = nullptr;
  std::optional<int> numa_node;
  std::string cpu_affinity;              ///< "0-23,48-71"; empty: unknown
  std::vector<Fact> facts;
};

struct Inventory {
  std::shared_ptr<Backend> owner;        ///< of the infos
  std::string backend, driver;
  std::vector<Fact> facts;
  std::vector<InventoryDevice> devices;
  std::vector<std::vector<std::string>> topology;  ///< of `devices`, square; empty: unknown
  bool complete = true;                  ///< false: the driver did not answer in time and may still be at it

  [[nodiscard]] std::string fact(const InventoryDevice& device, std::string_view id) const;
};

/// Asks with a deadline of some seconds.
Inventory inventory_of(std::shared_ptr<Backend> backend, const std::vector<uint32_t>& devices);
/// profgpu.devices.v1
std::string inventory_json(const Inventory& inventory);

}  // namespace profgpu
