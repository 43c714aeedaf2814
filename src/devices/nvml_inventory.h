// The NVIDIA devices, MIG instances included, and what never changes about each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "devices/nvml_library.h"
#include "devices/nvml_reader.h"
#include "trace/sample.h"

namespace profgpu::nvml {

struct Found {
  DeviceInfo info;
  Reader::Place place;             ///< its device is null where the driver gave no handle
  Return broken = kSuccess;        ///< why it gave none: kGpuIsLost, kTimeout
  std::vector<std::pair<Metric, Return>> unknown;  ///< constants that it does not report, and why
};

struct Inventory {
  std::shared_ptr<Library> library;
  std::vector<Found> devices;   ///< the parent of a MIG instance is an index here
};
/// Opens the library and queries each device by itself: GPUs in the driver's order, each followed by its MIG instances.
/// Gives up after `patience_ns` without any device; one that is silent when all others have answered is broken
/// (kTimeout). A call that hangs is left behind on its thread. Without constants those of GPUs, except the memory's
/// size, are left to the readings.
Result<Inventory> take_inventory(int64_t patience_ns, bool with_constants);

/// As DeviceInfo::pci_bus_id has it.
std::string bus_id_of(const PciInfo& pci);

}  // namespace profgpu::nvml
