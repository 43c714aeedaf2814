// NCCL's profiler interface in versions 4 (2.27), 5 (2.28) and 6 (2.29), declared by ourselves from its public headers,
// as far as we read it. NCCL looks for the newest version that a plugin has and speaks that.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace profgpu::inject::nccl {

using Result = int32_t;
inline constexpr Result kSuccess = 0;

enum EventType : uint64_t {
  kGroup = 1u << 0,
  kCollective = 1u << 1,
  kPointToPoint = 1u << 2,
  kKernelChannel = 1u << 6,
  kGroupCall = 1u << 8,
  kCollectiveCall = 1u << 9,
  kPointToPointCall = 1u << 10,
  kKernelLaunch = 1u << 11,
  kCopyEngine = 1u << 12,  ///< a collective by copy engines; version 6
};
inline constexpr int32_t kKernelChannelStop = 22;  ///< event state: the kernel's end is known

struct CollectivePart {
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int32_t root;
  const char* data_type;
  uint8_t channels, warps;
  const char* algorithm;
  const char* protocol;
};
struct PointToPointPart {
  const char* function;
  void* buffer;
  const char* data_type;
  size_t count;
  int32_t peer;
  uint8_t channels;
};
struct KernelChannelPart {
  uint8_t channel;
  uint64_t start_ns;  ///< the device's global timer
};
struct CopyEnginePart {
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int32_t root;
  const char* data_type;
};

template <typename Type>
struct Descriptor {
  Type type;
  void* parent;
  int32_t rank;
  union {
    CollectivePart collective;
    PointToPointPart point_to_point;
    KernelChannelPart kernel_channel;
    CopyEnginePart copy_engine;
  };
};
using DescriptorV4 = Descriptor<uint8_t>;
using DescriptorV5 = Descriptor<uint64_t>;  ///< and of version 6: what it adds lies behind or is of other types

union StateArguments {
  struct {
    uint64_t end_ns;  ///< the device's global timer
  } kernel_channel;
};

using Logger = void (*)(int level, unsigned long flags, const char* file, int line, const char* format, ...);

struct PluginV4 {
  const char* name;
  Result (*init)(void** context, int32_t* mask, const char* name, uint64_t hash, int32_t nodes, int32_t ranks,
                 int32_t rank, Logger);
  Result (*start)(void* context, void** handle, DescriptorV4*);
  Result (*stop)(void* handle);
  Result (*state)(void* handle, int32_t state, StateArguments*);
  Result (*finalize)(void* context);
};
struct PluginV5 {
  const char* name;
  Result (*init)(void** context, uint64_t hash, int32_t* mask, const char* name, int32_t nodes, int32_t ranks,
                 int32_t rank, Logger);
  Result (*start)(void* context, void** handle, DescriptorV5*);
  Result (*stop)(void* handle);
  Result (*state)(void* handle, int32_t state, StateArguments*);
  Result (*finalize)(void* context);
};

}  // namespace profgpu::inject::nccl
