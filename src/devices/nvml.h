// What a person may need to know of the driver and a device: for inventories and diagnoses. Slow calls are welcome.
#pragma once

#include <vector>

#include "devices/backend.h"
#include "devices/nvml_inventory.h"

namespace profgpu::nvml {

std::vector<Fact> system_facts(Library& library);
/// Of a MIG instance: what its GPU says, where it has no answer of its own.
std::vector<Fact> device_facts(Library& library, const Found& found);
/// As `nvidia-smi topo -m` shows it. "": not known.
std::vector<std::vector<Link>> topology(Library& library, const std::vector<Found>& devices);

/// The links of a GPU that are up.
struct ActiveLinks {
  uint32_t count = 0, to_switches = 0;
  std::vector<std::string> peers;   ///< PCI bus id of the GPU behind each that leads to one
};
ActiveLinks active_links(Library& library, Device device);

}  // namespace profgpu::nvml
