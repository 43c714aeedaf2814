// How NVIDIA devices reach each other: over NVLink, or how far up the PCIe tree they meet.
#include <fmt/format.h>

#include <algorithm>

#include "collect/nvml_facts.h"

namespace profgpu::nvml {
namespace {

std::string words_of_ancestor(uint32_t level) {
  switch (level) {
    case kInternal:
    case kSingle: return "PIX";
    case kMultiple: return "PXB";
    case kHostBridge: return "PHB";
    case kNode: return "NODE";
    case kSystem: return "SYS";
    default: return {};
  }
}

// Links that lead to the other GPU itself, else those that both have to switches: on boards with switches each GPU
// reaches each other over all of its links.
uint32_t links_between(const ActiveLinks& a, const ActiveLinks& b, const std::string& b_bus_id) {
  const auto direct = static_cast<uint32_t>(std::count(a.peers.begin(), a.peers.end(), b_bus_id));
  return direct ? direct : std::min(a.to_switches, b.to_switches);
}

}  // namespace

ActiveLinks active_links(Library& library, Device device) {
  ActiveLinks out;
  for (uint32_t link = 0; link < kMaxLinks; ++link) {
    uint32_t active = 0, type = kLinkGpu;
    if (library.call(library.api.link_state, device, link, &active) != kSuccess) break;
    if (!active) continue;
    ++out.count;
    library.call(library.api.link_remote_type, device, link, &type);
    if (type == kLinkSwitch) {
      ++out.to_switches;
      continue;
    }
    PciInfo pci{};
    if (library.call(library.api.link_remote, device, link, &pci) == kSuccess)
      out.peers.push_back(fmt::format("{:08x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device));
  }
  return out;
}

std::vector<std::vector<Link>> topology(Library& library, const std::vector<Found>& devices) {
  const size_t n = devices.size();
  std::vector<std::vector<Link>> out(n, std::vector<Link>(n));
  // An instance is where its GPU is.
  const auto gpu_of = [&](size_t i) { return devices[i].info.parent ? *devices[i].info.parent : i; };
  std::vector<ActiveLinks> links(n);
  for (size_t i = 0; i < n; ++i)
    if (gpu_of(i) == i && devices[i].place.device) links[i] = active_links(library, devices[i].place.device);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) {
      const size_t a = gpu_of(i), b = gpu_of(j);
      if (a == b) {
        out[i][j].kind = "X";
        continue;
      }
      if (!devices[a].place.device || !devices[b].place.device) continue;
      if (const uint32_t count = links_between(links[a], links[b], devices[b].info.pci_bus_id)) {
        out[i][j].kind = fmt::format("NV{}", count);
        continue;
      }
      uint32_t level = 0;
      const Return code = library.call(library.api.ancestor, devices[a].place.device, devices[b].place.device, &level);
      if (code == kSuccess) out[i][j].kind = words_of_ancestor(level);
    }
  return out;
}

}  // namespace profgpu::nvml
