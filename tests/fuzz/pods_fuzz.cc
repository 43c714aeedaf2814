// The kubelet's list of pods: whatever the bytes, it is read or refused, and devices keep few containers, in order.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>

#include "watch/exporter/kubelet_pods.h"

namespace {

using namespace profgpu;

PodResources two_devices() {
  std::vector<DeviceInfo> devices(2);
  devices[0].uuid = "GPU-0";
  devices[1].vendor = "NVIDIA";
  return {devices, "/nowhere"};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const PodResources kResources = two_devices();
  const auto pods = kResources.read({reinterpret_cast<const char*>(data), size});
  if (!pods) return 0;
  for (const auto& on : *pods)
    if (on.size() > 64 || std::adjacent_find(on.begin(), on.end(), std::greater_equal<>()) != on.end()) std::abort();
  return 0;
}
