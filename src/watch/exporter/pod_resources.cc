#include "watch/exporter/pod_resources.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/protobuf.h"
#include "devices/drm_card.h"

namespace profgpu {
namespace {

constexpr size_t kMaxContainers = 64;  // of one device: each may be a copy of its series
constexpr size_t kLongestName = 256;    // bytes; Kubernetes allows 253

// NVML writes a PCI domain with eight digits, the kernel and device plugins with four.
std::string kernel_pci(const std::string& pci) {
  return pci.starts_with("0000") && pci.find(':') == 8 ? pci.substr(4) : pci;
}

// What device plugins call it. NVIDIA's: the UUID, for MIG before driver 470 "MIG-GPU-…/7/0"; Google's: "nvidia0",
// "nvidia0/gi7"; AMD's: the PCI address.
std::vector<std::string> ids_of(const DeviceInfo& d, const std::vector<DeviceInfo>& all) {
  std::vector<std::string> ids{d.uuid};
  const bool nvidia = d.vendor == "NVIDIA";
  if (!d.gpu_instance) {
    ids.push_back(kernel_pci(d.pci_bus_id));
    if (nvidia) ids.push_back(fmt::format("nvidia{}", d.index));
    return ids;
  }
  ids.push_back(fmt::format("nvidia{}/gi{}", d.index, *d.gpu_instance));
  if (d.parent && *d.parent < all.size())
    ids.push_back(fmt::format("MIG-{}/{}/{}", all[*d.parent].uuid, *d.gpu_instance, d.compute_instance.value_or(0)));
  return ids;
}

// Calls `each` for every text of that field, until it returns false. False: the message is broken, or `each` said so.
template <class Each>
bool each_text(std::string_view message, uint32_t field, const Each& each) {
  ProtobufReader reader(message);
  while (reader.next())
    if (reader.field() == field && !each(reader.text())) return false;
  return !reader.broken();
}

// The last one counts, as the format says.
std::string_view text_of(std::string_view message, uint32_t field) {
  std::string_view found;
  each_text(message, field, [&](std::string_view text) {
    found = text;
    return true;
  });
  return found;
}

}  // namespace

struct PodResources::Grant {
  std::string_view name_space, pod, container, id;
};

PodResources::PodResources(const std::vector<DeviceInfo>& devices, const std::string& sys) : count_(devices.size()) {
  for (size_t i = 0; i < devices.size(); ++i)
    for (std::string& id : ids_of(devices[i], devices))
      if (!id.empty()) positions_.emplace(std::move(id), i);
  // Intel's plugin: the card's name in sysfs.
  for (const DrmCard& card : drm_cards(sys, "8086", {"i915", "xe"}))
    if (const auto found = positions_.find(card.pci); found != positions_.end())
      positions_.emplace(card.name, found->second);
}

void PodResources::add(const Grant& grant, PodsByDevice& pods) const {
  std::string_view id = grant.id, share;
  // Shares of one device: of NVIDIA's plugin, of Google's, of AMD's.
  for (const std::string_view separator : {"::", "/vgpu", "-slice-"})
    if (const size_t at = id.rfind(separator); at != id.npos) {
      share = id.substr(at + separator.size());
      id = id.substr(0, at);
      break;
    }
  if (id.starts_with("card")) id = id.substr(0, id.find('-'));  // Intel's "card0-0" says so of whole ones too
  const auto [from, to] = positions_.equal_range(id);
  const size_t longest = std::max({grant.name_space.size(), grant.pod.size(), grant.container.size(), share.size()});
  if (from == to || longest > kLongestName) return;
  const PodContainer container{std::string(grant.name_space), std::string(grant.pod), std::string(grant.container),
                               std::string(share)};
  for (auto at = from; at != to; ++at) {
    std::vector<PodContainer>& on = pods[at->second];
    const auto place = std::lower_bound(on.begin(), on.end(), container);
    if (place != on.end() && *place == container) continue;
    on.insert(place, container);
    if (on.size() > kMaxContainers) on.pop_back();  // the same ones stay, in whatever order the kubelet names them
  }
}

Result<PodsByDevice> PodResources::read(std::string_view list) const {
  PodsByDevice pods(count_);
  Grant grant;
  // k8s.io/kubelet/pkg/apis/podresources/v1: a list has pods (1), which have a name (1), a namespace (2) and containers
  // (3), which have a name (1) and devices (2), which have a resource's name (1) and ids (2). Names may stand behind
  // what they name.
  const bool whole = each_text(list, 1, [&](std::string_view pod) {
    grant.pod = text_of(pod, 1);
    grant.name_space = text_of(pod, 2);
    return each_text(pod, 3, [&](std::string_view container) {
      grant.container = text_of(container, 1);
      return each_text(container, 2, [&](std::string_view devices) {
        return each_text(devices, 2, [&](std::string_view id) {
          grant.id = id;
          add(grant, pods);
          return true;
        });
      });
    });
  });
  if (!whole) return Error{"its list of pods is damaged"};
  return pods;
}

}  // namespace profgpu
