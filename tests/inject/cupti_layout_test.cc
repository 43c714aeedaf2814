// Our declarations of CUPTI and the stand-in's against NVIDIA's headers. Built only where those are installed; it has
// nothing to run.
#include <cupti.h>

#include <cstddef>

#include "record/inject/cupti_types.h"
#include "stubs/cuda/cupti_layouts.h"
#include "stubs/cuda/sim.h"

namespace ours = profgpu::inject::cupti;

#define SAME_PLACE(ours_record, ours_field, theirs, their_field)                            \
  static_assert(offsetof(ours_record, ours_field) == offsetof(theirs, their_field) &&       \
                sizeof(ours_record::ours_field) == sizeof(theirs::their_field), #ours_field)
#define SAME_START(ours_record, ours_field, theirs, their_field) \
  static_assert(offsetof(ours_record, ours_field) == offsetof(theirs, their_field), #ours_field)

#define KERNEL(record, theirs)                                          \
  SAME_PLACE(record, registers, theirs, registersPerThread);            \
  SAME_PLACE(record, start, theirs, start);                             \
  SAME_PLACE(record, end, theirs, end);                                 \
  SAME_PLACE(record, device, theirs, deviceId);                         \
  SAME_PLACE(record, context, theirs, contextId);                       \
  SAME_PLACE(record, stream, theirs, streamId);                         \
  SAME_START(record, grid, theirs, gridX);                              \
  SAME_START(record, block, theirs, blockX);                            \
  SAME_PLACE(record, static_shared, theirs, staticSharedMemory);        \
  SAME_PLACE(record, dynamic_shared, theirs, dynamicSharedMemory);      \
  SAME_PLACE(record, correlation, theirs, correlationId);               \
  SAME_PLACE(record, name, theirs, name);                               \
  SAME_PLACE(record, graph_node, theirs, graphNodeId);                  \
  SAME_PLACE(record, graph, theirs, graphId)
#define COPY(record, theirs)                              \
  SAME_PLACE(record, copy_kind, theirs, copyKind);        \
  SAME_PLACE(record, from_kind, theirs, srcKind);         \
  SAME_PLACE(record, to_kind, theirs, dstKind);           \
  SAME_PLACE(record, flags, theirs, flags);               \
  SAME_PLACE(record, bytes, theirs, bytes);               \
  SAME_PLACE(record, start, theirs, start);               \
  SAME_PLACE(record, end, theirs, end);                   \
  SAME_PLACE(record, device, theirs, deviceId);           \
  SAME_PLACE(record, context, theirs, contextId);         \
  SAME_PLACE(record, stream, theirs, streamId);           \
  SAME_PLACE(record, correlation, theirs, correlationId); \
  SAME_PLACE(record, graph_node, theirs, graphNodeId);    \
  SAME_PLACE(record, graph, theirs, graphId)
#define PEER(record, theirs) \
  COPY(record, theirs);      \
  SAME_PLACE(record, from_device, theirs, srcDeviceId); \
  SAME_PLACE(record, to_device, theirs, dstDeviceId)
#define SET(record, theirs)                               \
  SAME_PLACE(record, value, theirs, value);               \
  SAME_PLACE(record, bytes, theirs, bytes);               \
  SAME_PLACE(record, start, theirs, start);               \
  SAME_PLACE(record, device, theirs, deviceId);           \
  SAME_PLACE(record, correlation, theirs, correlationId); \
  SAME_PLACE(record, memory_kind, theirs, memoryKind);    \
  SAME_PLACE(record, graph_node, theirs, graphNodeId);    \
  SAME_PLACE(record, graph, theirs, graphId)
#define API(record, theirs)                               \
  SAME_PLACE(record, cbid, theirs, cbid);                 \
  SAME_PLACE(record, start, theirs, start);               \
  SAME_PLACE(record, end, theirs, end);                   \
  SAME_PLACE(record, thread, theirs, threadId);           \
  SAME_PLACE(record, correlation, theirs, correlationId); \
  SAME_PLACE(record, result, theirs, returnValue)
#define OVERHEAD(record, theirs)                       \
  SAME_PLACE(record, type, theirs, overheadKind);      \
  SAME_PLACE(record, object_kind, theirs, objectKind); \
  SAME_PLACE(record, start, theirs, start);            \
  SAME_PLACE(record, end, theirs, end)
#define SYNC(record, theirs)                              \
  SAME_PLACE(record, type, theirs, type);                 \
  SAME_PLACE(record, start, theirs, start);               \
  SAME_PLACE(record, end, theirs, end);                   \
  SAME_PLACE(record, correlation, theirs, correlationId); \
  SAME_PLACE(record, context, theirs, contextId);         \
  SAME_PLACE(record, stream, theirs, streamId);           \
  SAME_PLACE(record, event, theirs, cudaEventId)
#define EXTERNAL(record, theirs)                     \
  SAME_PLACE(record, type, theirs, externalKind);    \
  SAME_PLACE(record, external, theirs, externalId);  \
  SAME_PLACE(record, correlation, theirs, correlationId)
#define MEMORY(record, theirs)                               \
  SAME_PLACE(record, operation, theirs, memoryOperationType); \
  SAME_PLACE(record, memory_kind, theirs, memoryKind);       \
  SAME_PLACE(record, correlation, theirs, correlationId);    \
  SAME_PLACE(record, address, theirs, address);              \
  SAME_PLACE(record, bytes, theirs, bytes);                  \
  SAME_PLACE(record, time, theirs, timestamp);               \
  SAME_PLACE(record, device, theirs, deviceId);              \
  SAME_PLACE(record, stream, theirs, streamId)
#define GRAPH(record, theirs)                             \
  SAME_PLACE(record, correlation, theirs, correlationId); \
  SAME_PLACE(record, start, theirs, start);               \
  SAME_PLACE(record, end, theirs, end);                   \
  SAME_PLACE(record, device, theirs, deviceId);           \
  SAME_PLACE(record, graph, theirs, graphId);             \
  SAME_PLACE(record, stream, theirs, streamId)
#define DEVICE(record, theirs)                                        \
  SAME_PLACE(record, multiprocessors, theirs, numMultiprocessors);    \
  SAME_PLACE(record, compute_major, theirs, computeCapabilityMajor);  \
  SAME_PLACE(record, compute_minor, theirs, computeCapabilityMinor);  \
  SAME_PLACE(record, id, theirs, id);                                 \
  SAME_PLACE(record, uuid, theirs, uuid);                             \
  SAME_PLACE(record, name, theirs, name)

KERNEL(ours::KernelRecord, CUpti_ActivityKernel10);
KERNEL(cuda_sim::KernelLayout, CUpti_ActivityKernel10);
COPY(ours::MemcpyRecord, CUpti_ActivityMemcpy6);
COPY(cuda_sim::CopyLayout, CUpti_ActivityMemcpy6);
PEER(ours::MemcpyPeerRecord, CUpti_ActivityMemcpyPtoP4);
PEER(cuda_sim::PeerCopyLayout, CUpti_ActivityMemcpyPtoP4);
SET(ours::MemsetRecord, CUpti_ActivityMemset4);
SET(cuda_sim::SetLayout, CUpti_ActivityMemset4);
API(ours::ApiRecord, CUpti_ActivityAPI);
API(cuda_sim::ApiLayout, CUpti_ActivityAPI);
OVERHEAD(ours::OverheadRecord, CUpti_ActivityOverhead3);
OVERHEAD(cuda_sim::OverheadLayout, CUpti_ActivityOverhead3);
static_assert(offsetof(ours::OverheadRecord, thread) ==
              offsetof(CUpti_ActivityOverhead3, objectId) + offsetof(CUpti_ActivityObjectKindId, pt.threadId));
SYNC(ours::SynchronizationRecord, CUpti_ActivitySynchronization2);
SYNC(cuda_sim::SyncLayout, CUpti_ActivitySynchronization2);
EXTERNAL(ours::ExternalRecord, CUpti_ActivityExternalCorrelation);
EXTERNAL(cuda_sim::ExternalLayout, CUpti_ActivityExternalCorrelation);
MEMORY(ours::MemoryRecord, CUpti_ActivityMemory4);
MEMORY(cuda_sim::MemoryLayout, CUpti_ActivityMemory4);
GRAPH(ours::GraphRecord, CUpti_ActivityGraphTrace2);
GRAPH(cuda_sim::GraphLayout, CUpti_ActivityGraphTrace2);
DEVICE(ours::DeviceRecord, CUpti_ActivityDevice5);
DEVICE(cuda_sim::DeviceLayout, CUpti_ActivityDevice5);
SAME_PLACE(ours::DeviceRecord, memory_bytes, CUpti_ActivityDevice5, globalMemorySize);
SAME_PLACE(ours::ContextRecord, id, CUpti_ActivityContext3, contextId);
SAME_PLACE(ours::ContextRecord, device, CUpti_ActivityContext3, deviceId);
SAME_PLACE(ours::SubscriberParams, old_name, CUpti_SubscriberParams, oldSubscriberName);
SAME_PLACE(ours::SubscriberParams, old_size, CUpti_SubscriberParams, oldSubscriberSize);
static_assert(sizeof(ours::SubscriberParams) == sizeof(CUpti_SubscriberParams));
static_assert(offsetof(ours::CallbackInfo, site) == offsetof(CUpti_CallbackData, callbackSite));

#if CUPTI_API_VERSION >= 130000 && CUPTI_API_VERSION < 130100
static_assert(sizeof(cuda_sim::KernelLayout) == sizeof(CUpti_ActivityKernel10));
static_assert(sizeof(cuda_sim::CopyLayout) == sizeof(CUpti_ActivityMemcpy6));
static_assert(sizeof(cuda_sim::PeerCopyLayout) == sizeof(CUpti_ActivityMemcpyPtoP4));
static_assert(sizeof(cuda_sim::SetLayout) == sizeof(CUpti_ActivityMemset4));
static_assert(sizeof(cuda_sim::MemoryLayout) == sizeof(CUpti_ActivityMemory4));
static_assert(sizeof(cuda_sim::GraphLayout) == sizeof(CUpti_ActivityGraphTrace2));
static_assert(sizeof(cuda_sim::DeviceLayout) == sizeof(CUpti_ActivityDevice5));
static_assert(sizeof(cuda_sim::ContextLayout) == sizeof(CUpti_ActivityContext3));
static_assert(sizeof(cuda_sim::OverheadLayout) == sizeof(CUpti_ActivityOverhead3));
static_assert(sizeof(cuda_sim::SyncLayout) == sizeof(CUpti_ActivitySynchronization2));
#endif

#define SAME_NUMBER(ours_number, theirs) static_assert(static_cast<uint32_t>(ours_number) == static_cast<uint32_t>(theirs))
SAME_NUMBER(ours::kMemcpy, CUPTI_ACTIVITY_KIND_MEMCPY);
SAME_NUMBER(ours::kMemset, CUPTI_ACTIVITY_KIND_MEMSET);
SAME_NUMBER(ours::kDriver, CUPTI_ACTIVITY_KIND_DRIVER);
SAME_NUMBER(ours::kRuntime, CUPTI_ACTIVITY_KIND_RUNTIME);
SAME_NUMBER(ours::kDevice, CUPTI_ACTIVITY_KIND_DEVICE);
SAME_NUMBER(ours::kContext, CUPTI_ACTIVITY_KIND_CONTEXT);
SAME_NUMBER(ours::kConcurrentKernel, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
SAME_NUMBER(ours::kOverhead, CUPTI_ACTIVITY_KIND_OVERHEAD);
SAME_NUMBER(ours::kMemcpyPeer, CUPTI_ACTIVITY_KIND_MEMCPY2);
SAME_NUMBER(ours::kSynchronization, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
SAME_NUMBER(ours::kExternalCorrelation, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
SAME_NUMBER(ours::kMemory2, CUPTI_ACTIVITY_KIND_MEMORY2);
SAME_NUMBER(ours::kGraphTrace, CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
SAME_NUMBER(ours::kDriverApi, CUPTI_CB_DOMAIN_DRIVER_API);
SAME_NUMBER(ours::kRuntimeApi, CUPTI_CB_DOMAIN_RUNTIME_API);
SAME_NUMBER(ours::kSiteExit, CUPTI_API_EXIT);
SAME_NUMBER(ours::kThreadIdSystem, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
SAME_NUMBER(ours::kAttributeZeroedBuffers, CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER);
SAME_NUMBER(ours::kFlushForced, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
SAME_NUMBER(ours::kFlagAsync, CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC);
SAME_NUMBER(ours::kObjectThread, CUPTI_ACTIVITY_OBJECT_THREAD);
SAME_NUMBER(ours::kAllocationRelease, CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE);
SAME_NUMBER(ours::kMaxLimitReached, CUPTI_ERROR_MAX_LIMIT_REACHED);
SAME_NUMBER(ours::kMultipleSubscribers, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
SAME_NUMBER(ours::kInsufficientPrivileges, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);

int main() { return 0; }
