// A stand-in for the loader of Level Zero, for tests only. PROFGPU_LEVEL_ZERO_SCENARIO names a file that is read anew at
// each call, one fact a line; what follows a device is that device's:
//   device DOMAIN:BUS:DEVICE.FUNCTION
//   engine GROUP ACTIVE_US TIMESTAMP_US
//   memory PLACE SIZE FREE READ WRITTEN MOST_A_SECOND TIMESTAMP_US
//   pcie RECEIVED TRANSMITTED REPLAYS
//   fail FUNCTION CODE          (anywhere)
//   hang FUNCTION MILLISECONDS  (anywhere)
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "devices/level_zero_api.h"

namespace {

using namespace profgpu::level_zero;

struct Gpu {
  PciProperties pci{};
  PciStats stats{};
  std::vector<std::pair<uint32_t, EngineStats>> engines;
  struct Module {
    uint32_t place = 0;
    MemoryState state{};
    MemoryBandwidth bandwidth{};
  };
  std::vector<Module> memories;
};

struct Scenario {
  std::vector<Gpu> gpus;
  std::map<std::string, unsigned> failures, hangs;
};

Scenario scenario() {
  Scenario s;
  const char* path = std::getenv("PROFGPU_LEVEL_ZERO_SCENARIO");
  std::ifstream file(path ? path : "");
  for (std::string line, word; std::getline(file, line);) {
    std::istringstream in(line);
    in >> word;
    if (word == "fail" || word == "hang") {
      std::string function, number;
      in >> function >> number;
      (word == "fail" ? s.failures : s.hangs)[function] = static_cast<unsigned>(std::stoul(number, nullptr, 0));
    } else if (word == "device") {
      Gpu g;
      std::sscanf(line.c_str(), "device %x:%x:%x.%x", &g.pci.domain, &g.pci.bus, &g.pci.device, &g.pci.function);
      s.gpus.push_back(g);
    } else if (word == "engine") {
      auto& [group, stats] = s.gpus.back().engines.emplace_back();
      in >> group >> stats.active_us >> stats.timestamp_us;
    } else if (word == "memory") {
      auto& m = s.gpus.back().memories.emplace_back();
      in >> m.place >> m.state.size >> m.state.free >> m.bandwidth.read >> m.bandwidth.written >>
          m.bandwidth.max_per_second >> m.bandwidth.timestamp_us;
    } else if (word == "pcie") {
      Gpu& g = s.gpus.back();
      in >> g.stats.received >> g.stats.transmitted >> g.stats.replays;
      g.pci.counts_bytes = g.pci.counts_replays = 1;
    }
  }
  return s;
}

// A handle is the device's number from 1, and the part's number from 1 times 256.
template <class Handle>
Handle handle(size_t gpu, size_t part = 0) {
  return reinterpret_cast<Handle>(gpu + 1 + 256 * (part ? part : 0));
}
template <class Handle>
Gpu& gpu_of(Scenario& s, Handle h) {
  return s.gpus.at(reinterpret_cast<uintptr_t>(h) % 256 - 1);
}
template <class Handle>
size_t part_of(Handle h) {
  return reinterpret_cast<uintptr_t>(h) / 256 - 1;
}

template <class Handle, class Make>
Return list(size_t size, uint32_t* count, Handle* out, Make make) {
  const auto n = static_cast<uint32_t>(size);
  if (*count == 0 || !out) *count = n;
  else *count = std::min(*count, n);
  for (uint32_t i = 0; out && i < *count; ++i) out[i] = make(i);
  return kSuccess;
}

// Fills what is behind the two fields that the caller set.
template <class Struct>
void give(Struct* out, const Struct& value) {
  constexpr size_t kHead = offsetof(Struct, next) + sizeof(void*);
  std::memcpy(reinterpret_cast<char*>(out) + kHead, reinterpret_cast<const char*>(&value) + kHead, sizeof(Struct) - kHead);
}

}  // namespace

#define ENTER(scene)                                                                                          \
  Scenario scene = scenario();                                                                                \
  if (const auto hang = scene.hangs.find(__func__); hang != scene.hangs.end()) usleep(hang->second * 1000);    \
  if (const auto fail = scene.failures.find(__func__); fail != scene.failures.end()) return Return(fail->second)
#define STAND_IN extern "C" __attribute__((visibility("default"))) Return

STAND_IN zesInit(uint32_t) {
  ENTER(s);
  return kSuccess;
}
STAND_IN zesDriverGet(uint32_t* count, Driver* out) {
  ENTER(s);
  return list(1, count, out, [](size_t i) { return handle<Driver>(i); });
}
STAND_IN zesDeviceGet(Driver, uint32_t* count, Device* out) {
  ENTER(s);
  return list(s.gpus.size(), count, out, [](size_t i) { return handle<Device>(i); });
}
STAND_IN zesDevicePciGetProperties(Device d, PciProperties* out) {
  ENTER(s);
  if (out->type != kPciPropertiesType) return kUnsupportedFeature;
  give(out, gpu_of(s, d).pci);
  return kSuccess;
}
STAND_IN zesDevicePciGetStats(Device d, PciStats* out) {
  ENTER(s);
  *out = gpu_of(s, d).stats;
  return kSuccess;
}
STAND_IN zesDeviceEnumEngineGroups(Device d, uint32_t* count, Engine* out) {
  ENTER(s);
  const size_t gpu = reinterpret_cast<uintptr_t>(d) - 1;
  return list(gpu_of(s, d).engines.size(), count, out, [gpu](size_t i) { return handle<Engine>(gpu, i + 1); });
}
STAND_IN zesEngineGetProperties(Engine e, EngineProperties* out) {
  ENTER(s);
  if (out->type != kEnginePropertiesType) return kUnsupportedFeature;
  EngineProperties p;
  p.group = gpu_of(s, e).engines.at(part_of(e)).first;
  give(out, p);
  return kSuccess;
}
STAND_IN zesEngineGetActivity(Engine e, EngineStats* out) {
  ENTER(s);
  *out = gpu_of(s, e).engines.at(part_of(e)).second;
  return kSuccess;
}
STAND_IN zesDeviceEnumMemoryModules(Device d, uint32_t* count, Memory* out) {
  ENTER(s);
  const size_t gpu = reinterpret_cast<uintptr_t>(d) - 1;
  return list(gpu_of(s, d).memories.size(), count, out, [gpu](size_t i) { return handle<Memory>(gpu, i + 1); });
}
STAND_IN zesMemoryGetProperties(Memory m, MemoryProperties* out) {
  ENTER(s);
  if (out->type != kMemoryPropertiesType) return kUnsupportedFeature;
  MemoryProperties p;
  p.location = gpu_of(s, m).memories.at(part_of(m)).place;
  give(out, p);
  return kSuccess;
}
STAND_IN zesMemoryGetState(Memory m, MemoryState* out) {
  ENTER(s);
  if (out->type != kMemoryStateType) return kUnsupportedFeature;
  give(out, gpu_of(s, m).memories.at(part_of(m)).state);
  return kSuccess;
}
STAND_IN zesMemoryGetBandwidth(Memory m, MemoryBandwidth* out) {
  ENTER(s);
  *out = gpu_of(s, m).memories.at(part_of(m)).bandwidth;
  return kSuccess;
}
