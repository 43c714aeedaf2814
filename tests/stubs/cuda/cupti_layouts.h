// Records as CUPTI 11.8, 12.5 and 13.0 lay them out, written from its public documentation; SIM_CUPTI chooses. A test
// compares the newest with NVIDIA's headers where those are installed.
#pragma once

#include <cstdint>

#ifndef SIM_CUPTI
#define SIM_CUPTI 13
#endif

namespace cuda_sim {

#if SIM_CUPTI == 11
inline constexpr uint32_t kApiVersion = 18;
#define SIM_BY_VERSION(v11, v12, v13) v11
#elif SIM_CUPTI == 12
inline constexpr uint32_t kApiVersion = 23;
#define SIM_BY_VERSION(v11, v12, v13) v12
#else
inline constexpr uint32_t kApiVersion = 130001;
#define SIM_BY_VERSION(v11, v12, v13) v13
#endif

struct alignas(8) KernelLayout {
  uint32_t kind;
  uint8_t cache_config, shared_config;
  uint16_t registers;
  uint32_t global_cache, global_cache_executed;
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t grid[3], block[3], static_shared, dynamic_shared;
  uint32_t local_per_thread, local_total, correlation;
  int64_t grid_id;
  const char* name;
  void* reserved0;
  uint64_t queued, submitted;
  uint8_t launch_type, shared_set, shared_carveout, pad;
  uint32_t shared_executed;
  uint64_t graph_node;
  uint32_t shared_limit, graph;
  void* policy_window;
  uint32_t channel, channel_type;
  uint32_t cluster[3], cluster_policy;
  uint64_t local_total_v2;
  uint8_t later[SIM_BY_VERSION(0, 8, 16)];
};
struct alignas(8) CopyLayout {
  uint32_t kind;
  uint8_t copy_kind, from_kind, to_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation, runtime_correlation, pad;
  void* reserved0;
  uint64_t graph_node;
  uint32_t graph, channel;
  uint8_t later[SIM_BY_VERSION(8, 8, 16)];
};
struct alignas(8) PeerCopyLayout {
  uint32_t kind;
  uint8_t copy_kind, from_kind, to_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, from_device, from_context, to_device, to_context, correlation;
  void* reserved0;
  uint64_t graph_node;
  uint32_t graph, channel;
  uint8_t later[SIM_BY_VERSION(0, 0, 8)];
};
struct alignas(8) SetLayout {
  uint32_t kind, value;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
  uint16_t flags, memory_kind;
  uint32_t pad;
  void* reserved0;
  uint64_t graph_node;
  uint32_t graph, channel;
  uint8_t later[SIM_BY_VERSION(0, 0, 8)];
};
struct alignas(8) ApiLayout {
  uint32_t kind, cbid;
  uint64_t start, end;
  uint32_t process, thread, correlation, result;
};
struct alignas(8) OverheadLayout {
  uint32_t kind, type, object_kind, object[3];
  uint64_t start, end;
  uint8_t later[SIM_BY_VERSION(0, 16, 16)];
};
struct alignas(8) SyncLayout {
  uint32_t kind, type;
  uint64_t start, end;
  uint32_t correlation, context, stream, event;
  uint8_t later[SIM_BY_VERSION(0, 0, 16)];
};
struct alignas(8) ExternalLayout {
  uint32_t kind, type;
  uint64_t external;
  uint32_t correlation, reserved;
};
struct alignas(8) MemoryLayout {
  uint32_t kind, operation, memory_kind, correlation;
  uint64_t address, bytes, time, program_counter;
  uint32_t process, device, context, stream;
  const char* name;
  uint32_t async;
  uint8_t later[SIM_BY_VERSION(36, 44, 52)];
};
struct alignas(8) GraphLayout {
  uint32_t kind, correlation;
  uint64_t start, end;
  uint32_t device, graph, context, stream;
  void* reserved;
  uint8_t later[SIM_BY_VERSION(0, 8, 8)];
};
struct alignas(8) DeviceLayout {
  uint32_t kind, flags;
  uint64_t bandwidth, memory;
  uint32_t constant_memory, l2, threads_per_warp, core_clock, copy_engines, multiprocessors;
  uint32_t limits[14];  // what a block, a multiprocessor and a grid can have
  uint32_t compute_major, compute_minor, id, ecc;
  uint8_t uuid[16];
  const char* name;
  uint8_t later[SIM_BY_VERSION(32, 32, 40)];
};
struct alignas(8) ContextLayout {
  uint32_t kind, id, device;
  uint16_t api, null_stream;
  uint8_t later[SIM_BY_VERSION(0, 8, 16)];
};
static_assert(sizeof(KernelLayout) == SIM_BY_VERSION(200, 208, 216));
static_assert(sizeof(CopyLayout) == SIM_BY_VERSION(88, 88, 96) && sizeof(PeerCopyLayout) == SIM_BY_VERSION(88, 88, 96));
static_assert(sizeof(SetLayout) == SIM_BY_VERSION(80, 80, 88) && sizeof(ApiLayout) == 40);
static_assert(sizeof(OverheadLayout) == SIM_BY_VERSION(40, 56, 56) && sizeof(SyncLayout) == SIM_BY_VERSION(40, 40, 56));
static_assert(sizeof(ExternalLayout) == 24 && sizeof(MemoryLayout) == SIM_BY_VERSION(112, 120, 128));
static_assert(sizeof(GraphLayout) == SIM_BY_VERSION(48, 56, 56) && sizeof(DeviceLayout) == SIM_BY_VERSION(176, 176, 184));
static_assert(sizeof(ContextLayout) == SIM_BY_VERSION(16, 24, 32));

}  // namespace cuda_sim
