// Graphics cards as sysfs lists them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collect/backend.h"
#include "collect/drm_file.h"

namespace profgpu {

struct DrmCard {
  std::string name;       ///< "card0"
  std::string folder;     ///< ".../class/drm/card0/device"
  std::string pci;        ///< "0000:03:00.0", as the kernel writes it
  std::string driver;     ///< "amdgpu"
  std::string vendor_id;  ///< "1002"
  std::string device_id;  ///< "74a1"
  std::string hwmon;      ///< the folder with the device's sensors; empty: none
};

/// In order of their PCI address, which is how the vendors' tools count. Partitions of a card are none of their own.
std::vector<DrmCard> drm_cards(const std::string& sys, std::string_view vendor_id,
                               const std::vector<std::string_view>& drivers);

/// What every card has: address, NUMA node, PCIe limits. `index` is its position.
DeviceInfo drm_device_info(const DrmCard& card, uint32_t index, std::string_view vendor);

/// The product's name from the list of PCI ids that most systems have; empty if it is not there.
std::string pci_product_name(std::string_view vendor_id, std::string_view device_id);

/// N of hwmon's tempN_label that says `label`; 0: none.
int hwmon_temperature(const std::string& hwmon, std::string_view label);

/// Where a library is that could be opened; empty: not in the usual folders.
std::string find_library(std::string_view name);

/// What is the same for all vendors.
std::vector<Fact> drm_facts(const DrmCard& card);
/// The number in a file, whole, or that it cannot be read.
Fact drm_number_fact(std::string id, const std::string& path, double scale = 1, FileForm form = FileForm::kNumber);

}  // namespace profgpu
