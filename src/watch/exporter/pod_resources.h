// Which containers of Kubernetes' pods were given which devices, as the kubelet's list of pods says.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "trace/sample.h"

namespace profgpu {

/// A container that was given a device.
struct PodContainer {
  std::string name_space, pod, container;
  std::string share;  ///< "3" of a device that is shared out as "GPU-…::3"; empty: all of it, or not told apart
  auto operator<=>(const PodContainer&) const = default;
};
/// By device; of each in order, each once.
using PodsByDevice = std::vector<std::vector<PodContainer>>;

class PodResources {
 public:
  /// `sys`: where sysfs is, for the numbers of Intel's cards.
  PodResources(const std::vector<DeviceInfo>& devices, const std::string& sys);

  /// `list`: v1.ListPodResourcesResponse. Devices are found by their ids alone, whatever the resource is called.
  [[nodiscard]] Result<PodsByDevice> read(std::string_view list) const;

 private:
  struct Grant;
  void add(const Grant& grant, PodsByDevice& pods) const;

  size_t count_;
  std::multimap<std::string, size_t, std::less<>> positions_;  // by what device plugins call a device
};

}  // namespace profgpu
