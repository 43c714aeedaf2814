// What devices there are and how they are built.
#include <cstdio>
#include <cstring>

#include "stage.h"

using namespace nvml_stub;

namespace {

Return put(const std::string& text, char* out, uint32_t size) {
  if (!out) return kInvalidArgument;
  if (text.size() + 1 > size) return kInsufficientSize;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return kSuccess;
}

std::string text_of(const Gpu& gpu, const char* key, const std::string& otherwise) {
  const auto it = gpu.texts.find(key);
  return it == gpu.texts.end() ? otherwise : it->second;
}

std::string uuid_of(const Gpu& gpu) {
  char text[64];
  if (gpu.parent)
    std::snprintf(text, sizeof text, "MIG-%08x-%04x-5000-8000-0123456789ab", gpu.index, gpu.gpu_instance);
  else
    std::snprintf(text, sizeof text, "GPU-%08x-0000-4000-8000-0123456789ab", gpu.index + 0x5eed0000);
  return text_of(gpu, "uuid", text);
}

std::string name_of(const Gpu& gpu) {
  const std::string name = text_of(gpu.parent ? *gpu.parent : gpu, "name", "NVIDIA H100 80GB HBM3");
  return gpu.parent ? name + " MIG " + text_of(gpu, "profile", "") : name;
}

void fill(const Gpu& gpu, PciInfo& out) {
  out = {};
  std::string text = text_of(gpu.parent ? *gpu.parent : gpu, "pci", "");
  unsigned domain = 0, bus = 0x10 + gpu.index * 0x10, device = 0;
  if (!text.empty()) std::sscanf(text.c_str(), "%x:%x:%x", &domain, &bus, &device);
  out.domain = domain, out.bus = bus, out.device = device;
  out.pci_device_id = 0x233010de;
  std::snprintf(out.bus_id_legacy, sizeof out.bus_id_legacy, "%04X:%02X:%02X.0", domain & 0xffff, bus & 0xff,
                device & 0xff);
  std::snprintf(out.bus_id, sizeof out.bus_id, "%08X:%02X:%02X.0", domain, bus, device);
}

// The peer that stands at the other end of a link: -1 a switch; false if the link is not there.
bool peer_of(const Gpu& gpu, uint32_t link, int& peer) {
  int first = 0;
  for (const Links& l : gpu.links) {
    if (static_cast<int>(link) < first + l.count) {
      peer = l.peer;
      return true;
    }
    first += l.count;
  }
  return false;
}

}  // namespace

NVML_EXPORT Return nvmlSystemGetDriverVersion(char* out, uint32_t size) {
  NVML_ENTER_SYSTEM();
  return put(scenario().driver, out, size);
}
NVML_EXPORT Return nvmlSystemGetNVMLVersion(char* out, uint32_t size) {
  NVML_ENTER_SYSTEM();
  return put(scenario().nvml, out, size);
}
NVML_EXPORT Return nvmlSystemGetCudaDriverVersion_v2(int* out) {
  NVML_ENTER_SYSTEM();
  *out = scenario().cuda;
  return kSuccess;
}
NVML_EXPORT Return nvmlSystemGetCudaDriverVersion(int* out) {
  NVML_ENTER_SYSTEM();
  *out = scenario().cuda;
  return kSuccess;
}

namespace {
Return count_into(uint32_t* out) {
  *out = static_cast<uint32_t>(scenario().gpus.size());
  return kSuccess;
}
Return handle_into(uint32_t index, Device* out) {
  if (index >= scenario().gpus.size()) return kInvalidArgument;
  *out = handle_of(scenario().gpus[index]);
  return kSuccess;
}
}  // namespace

NVML_EXPORT Return nvmlDeviceGetCount_v2(uint32_t* out) {
  NVML_ENTER_SYSTEM();
  return count_into(out);
}
NVML_EXPORT Return nvmlDeviceGetCount(uint32_t* out) {
  NVML_ENTER_SYSTEM();
  return count_into(out);
}
NVML_EXPORT Return nvmlDeviceGetHandleByIndex_v2(uint32_t index, Device* out) {
  NVML_ENTER_SYSTEM();
  return handle_into(index, out);
}
NVML_EXPORT Return nvmlDeviceGetHandleByIndex(uint32_t index, Device* out) {
  NVML_ENTER_SYSTEM();
  return handle_into(index, out);
}

NVML_EXPORT Return nvmlDeviceGetName(Device d, char* out, uint32_t size) {
  NVML_ENTER(d);
  return put(name_of(*gpu_of(d)), out, size);
}
NVML_EXPORT Return nvmlDeviceGetIndex(Device d, uint32_t* index) {   // what gpustat calls
  NVML_ENTER(d);
  *index = static_cast<uint32_t>(gpu_of(d)->index);
  return kSuccess;
}
NVML_EXPORT Return nvmlDeviceGetUUID(Device d, char* out, uint32_t size) {
  NVML_ENTER(d);
  return put(uuid_of(*gpu_of(d)), out, size);
}
NVML_EXPORT Return nvmlDeviceGetSerial(Device d, char* out, uint32_t size) {
  NVML_ENTER(d);
  return put(text_of(*gpu_of(d), "serial", "165002300000" + std::to_string(gpu_of(d)->index)), out, size);
}
NVML_EXPORT Return nvmlDeviceGetVbiosVersion(Device d, char* out, uint32_t size) {
  NVML_ENTER(d);
  return put("96.00.61.00.01", out, size);
}

// The older structs end earlier: nothing is written behind them.
NVML_EXPORT Return nvmlDeviceGetPciInfo_v3(Device d, PciInfo* out) {
  NVML_ENTER(d);
  fill(*gpu_of(d), *out);
  return kSuccess;
}
NVML_EXPORT Return nvmlDeviceGetPciInfo_v2(Device d, PciInfo* out) {
  NVML_ENTER(d);
  PciInfo all;
  fill(*gpu_of(d), all);
  std::memcpy(static_cast<void*>(out), &all, offsetof(PciInfo, bus_id));
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetMemoryAffinity(Device d, uint32_t words, unsigned long* nodes, uint32_t) {
  NVML_ENTER(d);
  uint32_t node = 0;
  if (const Return r = tell(gpu_of(d), "numa", &node); r != kSuccess) return r;
  for (uint32_t i = 0; i < words; ++i) nodes[i] = i == node / 64 ? 1UL << node % 64 : 0;
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetMigMode(Device d, uint32_t* current, uint32_t* pending) {
  NVML_ENTER(d);
  const Return r = tell(gpu_of(d), "mig_mode", current);
  if (r == kSuccess) *pending = *current;
  return r;
}
NVML_EXPORT Return nvmlDeviceGetMaxMigDeviceCount(Device d, uint32_t* out) {
  NVML_ENTER(d);
  *out = 7;
  return kSuccess;
}
NVML_EXPORT Return nvmlDeviceGetMigDeviceHandleByIndex(Device d, uint32_t index, Device* out) {
  NVML_ENTER(d);
  auto& all = gpu_of(d)->instances;
  if (index >= all.size()) return kNotFound;
  *out = handle_of(all[index]);
  return kSuccess;
}
NVML_EXPORT Return nvmlDeviceGetGpuInstanceId(Device d, uint32_t* out) {
  NVML_ENTER(d);
  if (!gpu_of(d)->parent) return kNotSupported;
  *out = gpu_of(d)->gpu_instance;
  return kSuccess;
}
NVML_EXPORT Return nvmlDeviceGetComputeInstanceId(Device d, uint32_t* out) {
  NVML_ENTER(d);
  if (!gpu_of(d)->parent) return kNotSupported;
  *out = gpu_of(d)->compute_instance;
  return kSuccess;
}
NVML_EXPORT Return nvmlDeviceGetAttributes_v2(Device d, DeviceAttributes* out) {
  NVML_ENTER(d);
  if (!gpu_of(d)->parent) return kNotSupported;
  *out = {};
  const std::string profile = text_of(*gpu_of(d), "profile", "1g.10gb");
  out->gpu_slices = out->compute_slices = static_cast<uint32_t>(std::atoi(profile.c_str()));
  out->multiprocessors = 16 * out->gpu_slices;
  out->memory_mib = static_cast<uint64_t>(gpu_of(d)->course("memory_total").at(0)) >> 20;
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetPersistenceMode(Device d, uint32_t* out) {
  NVML_ENTER(d);
  return tell(gpu_of(d), "persistence", out);
}
NVML_EXPORT Return nvmlDeviceGetComputeMode(Device d, uint32_t* out) {
  NVML_ENTER(d);
  return tell(gpu_of(d), "compute_mode", out);
}
NVML_EXPORT Return nvmlDeviceGetEccMode(Device d, uint32_t* current, uint32_t* pending) {
  NVML_ENTER(d);
  const Return r = tell(gpu_of(d), "ecc_mode", current);
  if (r == kSuccess) *pending = *current;
  return r;
}

NVML_EXPORT Return nvmlDeviceGetNvLinkState(Device d, uint32_t link, uint32_t* out) {
  NVML_ENTER(d);
  int peer = 0;
  if (gpu_of(d)->links.empty()) return kNotSupported;
  if (link >= kMaxLinks) return kInvalidArgument;
  *out = peer_of(*gpu_of(d), link, peer);
  return kSuccess;
}
NVML_EXPORT Return nvmlDeviceGetNvLinkVersion(Device d, uint32_t link, uint32_t* out) {
  NVML_ENTER(d);
  int peer = 0;
  if (!peer_of(*gpu_of(d), link, peer)) return kNotSupported;
  *out = 4;
  return kSuccess;
}
NVML_EXPORT Return nvmlDeviceGetNvLinkRemotePciInfo_v2(Device d, uint32_t link, PciInfo* out) {
  NVML_ENTER(d);
  int peer = 0;
  if (!peer_of(*gpu_of(d), link, peer)) return kNotSupported;
  if (peer >= static_cast<int>(scenario().gpus.size())) return kNotFound;
  if (peer >= 0) {
    fill(scenario().gpus[static_cast<size_t>(peer)], *out);
  } else {
    *out = {};
    out->bus = 0xc0 + link % 4;   // one of four switches
  }
  return kSuccess;
}
NVML_EXPORT Return nvmlDeviceGetNvLinkRemoteDeviceType(Device d, uint32_t link, uint32_t* out) {
  NVML_ENTER(d);
  int peer = 0;
  if (!peer_of(*gpu_of(d), link, peer)) return kNotSupported;
  *out = peer < 0 ? kLinkSwitch : kLinkGpu;
  return kSuccess;
}
NVML_EXPORT Return nvmlDeviceGetNvLinkErrorCounter(Device d, uint32_t link, uint32_t counter, uint64_t* out) {
  NVML_ENTER(d);
  int peer = 0;
  if (!peer_of(*gpu_of(d), link, peer)) return kNotSupported;
  *out = 0;
  return counter == 0 && link == 0 ? tell(gpu_of(d), "nvlink_errors", out) : kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetTopologyCommonAncestor(Device a, Device b, uint32_t* out) {
  NVML_ENTER(a);
  const uint32_t i = gpu_of(a)->index, j = gpu_of(b)->index;
  const auto it = scenario().ancestors.find({std::min(i, j), std::max(i, j)});
  *out = it == scenario().ancestors.end() ? scenario().ancestor : it->second;
  return kSuccess;
}
