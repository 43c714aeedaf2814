#include "collect/nvml_inventory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

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

class Constants {
 public:
  Constants(Library& library, Found& found) : library_(library), found_(found) {}
  void read() {
    read_memory();
    if (found_.place.parent) return;
    read_power();
    number(library_.api.pcie_generation_max, Metric::kPcieGenerationMax, 1);
    number(library_.api.pcie_width_max, Metric::kPcieWidthMax, 1);
    indexed(library_.api.threshold, kSlowdownThreshold, Metric::kTemperatureSlowdown);
    indexed(library_.api.threshold, kShutdownThreshold, Metric::kTemperatureShutdown);
    indexed(library_.api.clock_max, kGraphicsClock, Metric::kGraphicsClockMax);
    indexed(library_.api.clock_max, kSmClock, Metric::kSmClockMax);
    indexed(library_.api.clock_max, kMemoryClock, Metric::kMemoryClockMax);
    indexed(library_.api.clock_max, kVideoClock, Metric::kVideoClockMax);
  }

 private:
  void add(Return code, Metric metric, double value) {
    if (code == kSuccess) found_.info.constants.emplace_back(metric, value);
    else found_.unknown.emplace_back(metric, code);
  }
  void number(GetUint call, Metric metric, double scale) {
    uint32_t value = 0;
    const Return code = library_.call(call, found_.place.device, &value);
    add(code, metric, value * scale);
  }
  void indexed(Return (*call)(Device, uint32_t, uint32_t*), uint32_t which, Metric metric) {
    uint32_t value = 0;
    const Return code = library_.call(call, found_.place.device, which, &value);
    add(code, metric, value);
  }
  void read_memory() {
    MemoryV2 m{version_word(sizeof m, 2), 0, 0, 0, 0};
    Return code = library_.call(library_.api.memory_v2, found_.place.device, &m);
    if (code != kSuccess) {
      Memory old{};
      code = library_.call(library_.api.memory, found_.place.device, &old);
      m.total = old.total;
    }
    add(code, Metric::kMemoryTotal, static_cast<double>(m.total));
    if (code == kSuccess) found_.place.memory_total = static_cast<double>(m.total);
    Bar1Memory bar1{};
    code = library_.call(library_.api.bar1, found_.place.device, &bar1);
    add(code, Metric::kBar1Total, static_cast<double>(bar1.total));
  }
  void read_power() {
    uint32_t low = 0, high = 0;
    const Return code = library_.call(library_.api.power_range, found_.place.device, &low, &high);
    add(code, Metric::kPowerLimitMin, low * 1e-3);
    add(code, Metric::kPowerLimitMax, high * 1e-3);
    number(library_.api.power_default, Metric::kPowerLimitDefault, 1e-3);
  }

  Library& library_;
  Found& found_;
};

Found gpu_at(Library& library, uint32_t index) {
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
  Constants(library, f).read();
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
    Constants(library, f).read();
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

std::vector<Found> find_device(Library& library, uint32_t index) {
  std::vector<Found> found = {gpu_at(library, index)};
  if (found.front().place.divided) add_instances(library, found);
  return found;
}

}  // namespace profgpu::nvml
