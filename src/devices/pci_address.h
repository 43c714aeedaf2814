// Addresses of PCI devices, in the spellings of drivers, tools and the kernel.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "devices/system_files.h"

namespace profgpu {

struct PciAddress {
  uint32_t domain = 0, bus = 0, device = 0, function = 0;
  auto operator<=>(const PciAddress&) const = default;

  /// "00000000:0a:00.0", as DeviceInfo::pci_bus_id has it.
  [[nodiscard]] std::string bus_id() const;
};

/// Of "0000:0A:00.0", "0a:00" and the like: domain and function may be left out.
std::optional<PciAddress> pci_address(std::string_view text);

/// The kernel's folder of a device; empty for what is not an address.
std::string pci_folder(const SystemRoots& roots, std::string_view bus_id);
/// The host's memory node that a device is attached to; nullopt if unknown.
std::optional<int32_t> numa_node(const SystemRoots& roots, std::string_view bus_id);

}  // namespace profgpu
