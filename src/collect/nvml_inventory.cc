#include "collect/nvml_inventory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "collect/nvml_constants.h"
#include "collect/system_files.h"

namespace profgpu::nvml {
namespace {

constexpr uint32_t kMostInstances = 64;

std::string text_of(Library& library, GetText call, Device device) {
  std::array<char, 96> text{};
  const Return code = library.call(call, device, text.data(), static_cast<uint32_t>(text.size() - 1));
  return code == kSuccess ? text.data() : std::string();
}

// The host's node; the driver's own number for a GPU's node is another thing (memory of Grace Hopper).
std::optional<int32_t> numa_node(Library& library, Device device, const std::string& bus_id) {
  std::array<unsigned long, 16> nodes{};
  if (library.call(library.api.memory_affinity, device, uint32_t{nodes.size()}, nodes.data(), uint32_t{0}) == kSuccess)
    for (size_t i = 0; i < nodes.size() * 64; ++i)
      if (nodes[i / 64] >> i % 64 & 1) return static_cast<int32_t>(i);
  if (bus_id.size() < 5) return std::nullopt;
  const std::string line =
      file_line(SystemRoots::from_environment().sys + "/bus/pci/devices/" + bus_id.substr(4) + "/numa_node");
  if (line.empty() || !std::isdigit(static_cast<unsigned char>(line[0]))) return std::nullopt;
  return std::atoi(line.c_str());
}

void add(Found& found, Return code, Metric metric, double value) {
  if (code == kSuccess) found.info.constants.emplace_back(metric, value);
  else found.unknown.emplace_back(metric, code);
}

void add_memory(Library& library, Found& found) {
  MemoryV2 m{version_word(sizeof m, 2), 0, 0, 0, 0};
  Return code = library.call(library.api.memory_v2, found.place.device, &m);
  if (code != kSuccess) {
    Memory old{};
    code = library.call(library.api.memory, found.place.device, &old);
    m.total = old.total;
  }
  add(found, code, Metric::kMemoryTotal, static_cast<double>(m.total));
  if (code == kSuccess) found.place.memory_total = static_cast<double>(m.total);
}

void add_constants(Library& library, Found& found) {
  for (const Constant& c : constants().first(found.place.parent ? 1 : constants().size())) {
    std::array<double, 2> values{};
    const Return code = c.ask(library, found.place.device, values);
    add(found, code, c.metric, values[0]);
    if (c.second) add(found, code, *c.second, values[1]);
  }
}

Found gpu_at(Library& library, uint32_t index, bool with_constants) {
  Found f;
  f.info.index = index;
  f.info.vendor = "NVIDIA";
  f.info.driver_version = library.driver_version();
  f.broken = library.call(library.api.handle, index, &f.place.device);
  if (f.broken != kSuccess) {
    f.place.device = nullptr;
    f.info.name = "NVIDIA GPU (" + words_of(f.broken) + ")";
    return f;
  }
  f.info.name = text_of(library, library.api.name, f.place.device);
  if (f.info.name.empty()) f.info.name = "NVIDIA GPU";
  f.info.uuid = text_of(library, library.api.uuid, f.place.device);
  f.info.pci_bus_id = pci_bus_id(library, f.place.device);
  f.info.numa_node = numa_node(library, f.place.device, f.info.pci_bus_id);
  uint32_t mode = 0, pending = 0;
  f.place.divided = library.call(library.api.mig_mode, f.place.device, &mode, &pending) == kSuccess && mode == 1;
  add_memory(library, f);
  if (with_constants) add_constants(library, f);
  f.place.constants_wanted = !with_constants;
  return f;
}

// "NVIDIA H100 80GB HBM3 MIG 3g.40gb" says it; else slices and memory do.
std::string profile_of(Library& library, Device device, const std::string& name) {
  const size_t at = name.rfind("MIG ");
  if (at != std::string::npos) return name.substr(at + 4);
  DeviceAttributes a{};
  if (library.call(library.api.attributes, device, &a) != kSuccess) return "MIG";
  const uint64_t gib = (a.memory_mib + 512) / 1024;
  return a.compute_slices < a.gpu_slices ? fmt::format("{}c.{}g.{}gb", a.compute_slices, a.gpu_slices, gib)
                                         : fmt::format("{}g.{}gb", a.gpu_slices, gib);
}

void add_instances(Library& library, std::vector<Found>& all) {
  const Device gpu = all.front().place.device;
  uint32_t count = 0;
  if (library.call(library.api.mig_count, gpu, &count) != kSuccess) return;
  for (uint32_t i = 0; i < std::min(count, kMostInstances); ++i) {
    Found f;
    // Places without an instance answer NOT_FOUND.
    if (library.call(library.api.mig_handle, gpu, i, &f.place.device) != kSuccess) continue;
    f.place.parent = gpu;
    f.info = all.front().info;
    f.info.constants.clear();
    f.info.parent = 0;
    f.info.uuid = text_of(library, library.api.uuid, f.place.device);
    f.info.mig_profile = profile_of(library, f.place.device, text_of(library, library.api.name, f.place.device));
    uint32_t id = 0;
    if (library.call(library.api.gpu_instance, f.place.device, &id) == kSuccess) {
      f.info.gpu_instance = id;
      f.place.gpu_instance = id;
    }
    if (library.call(library.api.compute_instance, f.place.device, &id) == kSuccess) f.info.compute_instance = id;
    add_memory(library, f);
    add_constants(library, f);
    all.push_back(std::move(f));
  }
}

}  // namespace

std::string pci_bus_id(Library& library, Device device) {
  PciInfo pci{};
  if (library.call(library.api.pci_info, device, &pci) != kSuccess) return {};
  // The numbers stand at the same place in all versions of the struct; the long text does not.
  return fmt::format("{:08x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device);
}

std::vector<Found> find_device(Library& library, uint32_t index, bool with_constants) {
  std::vector<Found> found = {gpu_at(library, index, with_constants)};
  if (found.front().place.divided) add_instances(library, found);
  return found;
}

}  // namespace profgpu::nvml
