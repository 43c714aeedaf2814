// Which NVIDIA devices there are, MIG instances among them, and what never changes about each.
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
  Reader::Place place;             ///< its device is null where the driver gave none
  Return broken = kSuccess;        ///< why it gave none: kGpuIsLost, kTimeout
  std::vector<std::pair<Metric, Return>> unknown;  ///< constants that it does not tell, and why
};
/// A GPU, then its MIG instances, whose parent is its place here. May take for ever. Without constants a GPU's, but for
/// the memory's size, are left to its readings.
std::vector<Found> find_device(Library& library, uint32_t index, bool with_constants);

struct Inventory {
  std::shared_ptr<Library> library;
  std::vector<Found> devices;
};
/// Opens the library and asks each device on its own: GPUs in the driver's order, each followed by its MIG instances.
/// Gives up after `patience_ns` without a device; a device that is silent while no other has more to say is broken
/// (kTimeout). What hangs is left behind on its thread.
Result<Inventory> take_inventory(int64_t patience_ns, bool with_constants);

/// "00000000:0a:00.0"; empty: not known.
std::string pci_bus_id(Library& library, Device device);

}  // namespace profgpu::nvml
