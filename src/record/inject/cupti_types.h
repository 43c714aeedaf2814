// What we use of CUPTI, declared by ourselves from its public documentation: functions, numbers, and the part of each
// record that has had the same places since CUDA 11.0. A record is read by these places whatever its size; CUPTI's own
// walk over a buffer knows the sizes. A test compares all of it with NVIDIA's headers where those are installed.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace profgpu::inject::cupti {

using Result = int32_t;
inline constexpr Result kSuccess = 0;
inline constexpr Result kMaxLimitReached = 12;
inline constexpr Result kInsufficientPrivileges = 35;
inline constexpr Result kMultipleSubscribers = 39;

enum Kind : uint32_t {
  kMemcpy = 1,
  kMemset = 2,
  kDriver = 4,
  kRuntime = 5,
  kDevice = 8,
  kContext = 9,
  kConcurrentKernel = 10,
  kOverhead = 17,
  kMemcpyPeer = 22,
  kSynchronization = 38,
  kExternalCorrelation = 39,
  kMemory2 = 49,
  kGraphTrace = 51,
};

enum Domain : uint32_t { kDriverApi = 1, kRuntimeApi = 2 };
inline constexpr uint32_t kSiteExit = 1;  ///< a callback after the call
inline constexpr uint32_t kThreadIdSystem = 1;
inline constexpr uint32_t kAttributeZeroedBuffers = 5;
inline constexpr uint32_t kFlushForced = 1;
inline constexpr uint32_t kFlagAsync = 1;
inline constexpr uint32_t kObjectThread = 2;
inline constexpr uint32_t kAllocationRelease = 2;

// CUPTI_API_VERSION of what matters here.
inline constexpr uint32_t kApi_11_0 = 13;
inline constexpr uint32_t kApi_11_1 = 14;
inline constexpr uint32_t kApi_11_6 = 17;
inline constexpr uint32_t kApi_12_9 = 27;  ///< from here on a buffer may be refused

struct KernelRecord {
  uint32_t kind;
  uint8_t cache_config, shared_config;
  uint16_t registers;
  uint32_t global_cache[2];
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t grid[3], block[3], static_shared, dynamic_shared;
  uint32_t local_per_thread, local_total, correlation;
  int64_t grid_id;
  const char* name;
  void* reserved;
  uint64_t queued, submitted;
  uint8_t launch[8];
  uint64_t graph_node;
  uint32_t shared_limit;
  uint32_t graph;
};
struct MemcpyRecord {
  uint32_t kind;
  uint8_t copy_kind, from_kind, to_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation, runtime_correlation, pad;
  void* reserved;
  uint64_t graph_node;
  uint32_t graph;
};
struct MemcpyPeerRecord {
  uint32_t kind;
  uint8_t copy_kind, from_kind, to_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, from_device, from_context, to_device, to_context, correlation;
  void* reserved;
  uint64_t graph_node;
  uint32_t graph;
};
struct MemsetRecord {
  uint32_t kind, value;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
  uint16_t flags, memory_kind;
  uint32_t pad;
  void* reserved;
  uint64_t graph_node;
  uint32_t graph;
};
struct ApiRecord {
  uint32_t kind, cbid;
  uint64_t start, end;
  uint32_t process, thread, correlation, result;
};
struct OverheadRecord {
  uint32_t kind, type, object_kind;
  uint32_t process, thread, unused;  ///< where the object is a thread
  uint64_t start, end;
};
struct SynchronizationRecord {
  uint32_t kind, type;
  uint64_t start, end;
  uint32_t correlation, context, stream, event;
};
struct ExternalRecord {
  uint32_t kind, type;
  uint64_t external;
  uint32_t correlation;
};
struct MemoryRecord {
  uint32_t kind, operation, memory_kind, correlation;
  uint64_t address, bytes, time, program_counter;
  uint32_t process, device, context, stream;
};
struct GraphRecord {
  uint32_t kind, correlation;
  uint64_t start, end;
  uint32_t device, graph, context, stream;
};
struct DeviceRecord {  ///< since 11.6
  uint32_t kind, flags;
  uint64_t bandwidth, memory_bytes;
  uint32_t sizes[5], multiprocessors, limits[14], compute_major, compute_minor, id, ecc;
  uint8_t uuid[16];
  const char* name;
};
struct ContextRecord {
  uint32_t kind, id, device;
};

struct SubscriberParams {
  size_t size;
  const char* name;
  char* old_name;  ///< at least 64 bytes
  size_t old_size;
};
struct CallbackInfo {
  uint32_t site;  ///< only the start of CUpti_CallbackData
};

using BufferRequested = void (*)(uint8_t** buffer, size_t* size, size_t* most_records);
using BufferCompleted = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid);
using Callback = void (*)(void* data, uint32_t domain, uint32_t cbid, const CallbackInfo* info);
using TimestampCallback = uint64_t (*)();

/// The functions of a libcupti. Those below `optional` may be null.
struct Calls {
  Result (*GetVersion)(uint32_t*);
  Result (*GetTimestamp)(uint64_t*);
  Result (*ActivityRegisterCallbacks)(BufferRequested, BufferCompleted);
  Result (*ActivityEnable)(uint32_t kind);
  Result (*ActivityDisable)(uint32_t kind);
  Result (*ActivityFlushAll)(uint32_t flag);
  Result (*ActivityGetNextRecord)(uint8_t* buffer, size_t valid, uint8_t** record);
  Result (*ActivityGetNumDroppedRecords)(void* context, uint32_t stream, size_t* dropped);
  // optional
  Result (*ActivitySetAttribute)(uint32_t attribute, size_t* size, void* value);
  Result (*SetThreadIdType)(uint32_t type);
  Result (*GetCallbackName)(uint32_t domain, uint32_t cbid, const char** name);
  Result (*GetResultString)(Result, const char**);
  Result (*Subscribe)(void** handle, Callback, void* data);
  Result (*SubscribeV2)(void** handle, Callback, void* data, SubscriberParams*);
  Result (*EnableCallback)(uint32_t enable, void* handle, uint32_t domain, uint32_t cbid);
  Result (*ActivityEnableDriverApi)(uint32_t cbid, uint8_t enable);
  Result (*ActivityEnableRuntimeApi)(uint32_t cbid, uint8_t enable);
  Result (*ActivityRegisterTimestampCallback)(TimestampCallback);
  Result (*Finalize)();
};

}  // namespace profgpu::inject::cupti
