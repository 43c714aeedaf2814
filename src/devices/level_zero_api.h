// Our own declarations of the parts of Level Zero Sysman that we call (oneAPI Level Zero specification, 1.5 and later):
// handles, structures and functions with the layout of the loader's zes_api.h on 64 bits. level_zero_test.cc compares
// them with that header.
#pragma once

#include <cstdint>

#include "base/dyn_lib.h"

namespace profgpu::level_zero {

using Driver = struct OpaqueDriver*;
struct OpaqueDevice;
using Device = OpaqueDevice*;
using Engine = struct OpaqueEngine*;
using Memory = struct OpaqueMemory*;

enum Return : uint32_t {
  kSuccess = 0,
  kDeviceLost = 0x70000001,
  kNoPermission = 0x70010000,
  kDependencyMissing = 0x70020000,
  kUninitialized = 0x78000001,
  kUnsupportedFeature = 0x78000003,
};

// Structure types, in the first field.
constexpr uint32_t kPciPropertiesType = 2, kEnginePropertiesType = 5, kMemoryPropertiesType = 0xb,
                   kMemoryStateType = 0x1e;

// Groups of engines, and where memory is.
constexpr uint32_t kComputeAll = 1, kComputeSingle = 4, kRenderSingle = 5, kRenderComputeAll = 11;
constexpr uint32_t kDeviceMemory = 1;

struct PciProperties {
  uint32_t type = kPciPropertiesType;
  void* next = nullptr;
  uint32_t domain = 0, bus = 0, device = 0, function = 0;
  int32_t max_generation = 0, max_width = 0;
  int64_t max_bandwidth = 0;
  uint8_t counts_bytes = 0, counts_packets = 0, counts_replays = 0;
};
struct PciStats {
  uint64_t timestamp_us = 0, replays = 0, packets = 0, received = 0, transmitted = 0;
  int32_t generation = 0, width = 0;
  int64_t bandwidth = 0;
};
struct EngineProperties {
  uint32_t type = kEnginePropertiesType;
  void* next = nullptr;
  uint32_t group = 0;
  uint8_t on_subdevice = 0;
  uint32_t subdevice = 0;
};
struct EngineStats {
  uint64_t active_us = 0, timestamp_us = 0;
};
struct MemoryProperties {
  uint32_t type = kMemoryPropertiesType;
  void* next = nullptr;
  uint32_t kind = 0;
  uint8_t on_subdevice = 0;
  uint32_t subdevice = 0;
  uint32_t location = 0;
  uint64_t physical_size = 0;
  int32_t bus_width = 0, channels = 0;
};
struct MemoryState {
  uint32_t type = kMemoryStateType;
  const void* next = nullptr;
  uint32_t health = 0;
  uint64_t free = 0, size = 0;
};
struct MemoryBandwidth {
  uint64_t read = 0, written = 0;       ///< bytes
  uint64_t max_per_second = 0, timestamp_us = 0;
};

class Api {
  const DynLib& library_;   // what the calls are initialised from
  [[nodiscard]] DynLib::Symbol find(const char* name) const { return library_.first_symbol({name}); }

 public:
  explicit Api(const DynLib& library) : library_(library) {}

  Return (*init)(uint32_t flags) = find("zesInit");
  Return (*drivers)(uint32_t* count, Driver* out) = find("zesDriverGet");
  Return (*devices)(Driver, uint32_t* count, Device* out) = find("zesDeviceGet");
  Return (*pci)(Device, PciProperties*) = find("zesDevicePciGetProperties");
  Return (*pci_stats)(Device, PciStats*) = find("zesDevicePciGetStats");
  Return (*engines)(Device, uint32_t* count, Engine* out) = find("zesDeviceEnumEngineGroups");
  Return (*engine_properties)(Engine, EngineProperties*) = find("zesEngineGetProperties");
  Return (*engine_stats)(Engine, EngineStats*) = find("zesEngineGetActivity");
  Return (*memories)(Device, uint32_t* count, Memory* out) = find("zesDeviceEnumMemoryModules");
  Return (*memory_properties)(Memory, MemoryProperties*) = find("zesMemoryGetProperties");
  Return (*memory_state)(Memory, MemoryState*) = find("zesMemoryGetState");
  Return (*memory_bandwidth)(Memory, MemoryBandwidth*) = find("zesMemoryGetBandwidth");
};

}  // namespace profgpu::level_zero
