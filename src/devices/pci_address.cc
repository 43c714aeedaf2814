#include "devices/pci_address.h"

#include <fmt/format.h>

#include "base/decimal.h"

namespace profgpu {

std::string PciAddress::bus_id() const { return fmt::format("{:08x}:{:02x}:{:02x}.{:x}", domain, bus, device, function); }

std::optional<PciAddress> pci_address(std::string_view text) {
  std::vector<std::string_view> parts = pieces_of(without_blanks(text), ':');
  if (parts.size() == 2) parts.insert(parts.begin(), "0");
  if (parts.size() != 3) return std::nullopt;
  const size_t dot = parts[2].find('.');
  const auto domain = hex_number(parts[0]), bus = hex_number(parts[1]), device = hex_number(parts[2].substr(0, dot));
  const auto function = dot == text.npos ? uint64_t{0} : hex_number(parts[2].substr(dot + 1));
  if (!domain || !bus || !device || !function || *domain > UINT32_MAX || *bus > 0xff || *device > 0x1f || *function > 7)
    return std::nullopt;
  return PciAddress{static_cast<uint32_t>(*domain), static_cast<uint32_t>(*bus), static_cast<uint32_t>(*device),
                    static_cast<uint32_t>(*function)};
}

std::string pci_folder(const SystemRoots& roots, std::string_view bus_id) {
  const auto a = pci_address(bus_id);
  // The kernel writes four digits of domain, or as many as it needs.
  return a ? fmt::format("{}/bus/pci/devices/{:04x}:{:02x}:{:02x}.{:x}", roots.sys, a->domain, a->bus, a->device,
                         a->function)
           : "";
}

std::optional<int32_t> numa_node(const SystemRoots& roots, std::string_view bus_id) {
  const std::string folder = pci_folder(roots, bus_id);
  const auto node = folder.empty() ? std::nullopt : whole_number(file_line(folder + "/numa_node"));
  return node && *node >= 0 && *node <= INT32_MAX ? std::optional(static_cast<int32_t>(*node)) : std::nullopt;
}

}  // namespace profgpu
