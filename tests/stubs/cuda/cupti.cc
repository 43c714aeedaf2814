// A stand-in for libcupti.so of CUDA 11.8, 12.5 or 13.0 (SIM_CUPTI). It records what the stand-in for libcuda.so.1 says
// that it did, in that version's layouts.
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "cupti_buffers.h"
#include "cupti_layouts.h"
#include "sim.h"
#include "steady_clock.h"

using namespace cuda_sim;

namespace {

enum Result {
  kSuccess = 0,
  kInvalidParameter = 1,
  kInvalidOperation = 7,
  kMaxLimitReached = 12,
  kInvalidKind = 21,
  kMultipleSubscribers = 39,
  kUnknown = 999,
};

constexpr uint32_t kNewerKind = 60;  // one that no recorder knows
constexpr uint32_t kNewerBytes = 32;

std::atomic<bool> enabled[kKinds];
std::atomic<bool> silenced[2][1024];  // calls of the runtime, of the driver
std::atomic<bool> alone[2][1024];     // enabled one by one
std::atomic<bool> callbacks_on[2][1024];
std::atomic<uint64_t (*)()> timestamp_callback{nullptr};
std::atomic<uint32_t> thread_id_type{0};
using Callback = void (*)(void* data, int domain, uint32_t cbid, const void* info);
std::atomic<Callback> subscriber{nullptr};
void* subscriber_data = nullptr;
char subscriber_name[64] = "";
std::atomic<int64_t> clock_jump{0};

bool on(Kind kind) { return enabled[kind].load(std::memory_order_relaxed); }

uint64_t now() {
  if (const auto callback = timestamp_callback.load()) return callback();
  return clock_ns(CLOCK_REALTIME) + static_cast<uint64_t>(clock_jump.load());
}
// A time of the simulated driver on the clock that is in force.
uint64_t stamp(uint64_t steady) {
  if (timestamp_callback.load(std::memory_order_relaxed) == nullptr)
    return steady + static_cast<uint64_t>(clock_steps_ns() + clock_jump.load(std::memory_order_relaxed));
  return steady - steady_unix_ns() + now();
}

uint32_t thread_number(uint32_t of_kernel) {
  if (thread_id_type.load() == 1) return of_kernel;
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(pthread_self()));
}

constexpr int kUnknownError = 999;   // what NVIDIA's answers to most where there is no driver of its major

// Where a scenario has error=FUNCTION:CODE, or error_all=CODE.
int planted_error(const char* function) {
  if (const int64_t code = scenario("error_all", 0)) return static_cast<int>(code);
  const char* const text = scenario_text("error");
  const size_t length = strlen(function);
  if (text == nullptr || strncmp(text, function, length) != 0 || text[length] != ':') return 0;
  return atoi(text + length + 1);
}

template <typename Layout>
Layout timed(const Work& w) {
  Layout r{};
  r.kind = w.kind;
  r.start = stamp(w.start), r.end = stamp(w.end);
  return r;
}
template <typename Layout>
Layout placed(const Work& w) {
  auto r = timed<Layout>(w);
  r.device = w.device, r.context = w.context, r.stream = w.stream, r.correlation = w.correlation;
  return r;
}
template <typename Layout>
void append(const Layout& record) {
  append_record(&record, sizeof record);
}

void append_kernel(const Work& w) {
  auto r = placed<KernelLayout>(w);
  r.registers = static_cast<uint16_t>(w.registers);
  memcpy(r.grid, w.grid, sizeof r.grid);
  memcpy(r.block, w.block, sizeof r.block);
  r.static_shared = w.static_shared, r.dynamic_shared = w.dynamic_shared;
  r.completed = r.end, r.grid_id = static_cast<int64_t>(w.correlation);
  r.name = w.name;
  r.graph = w.graph, r.graph_node = w.node;
  r.cluster[0] = r.cluster[1] = r.cluster[2] = 1;
  memset(r.later, 0xee, sizeof r.later);  // what an older reader does not know must not disturb it
  append(r);
}

void append_copy(const Work& w) {
  const auto fill = [&](auto r) {
    r.copy_kind = w.copy_kind, r.from_kind = w.from_kind, r.to_kind = w.to_kind, r.flags = w.flags;
    r.bytes = w.bytes, r.graph = w.graph, r.graph_node = w.node;
    return r;
  };
  if (w.kind == kCopy) return append(fill(placed<CopyLayout>(w)));
  auto r = fill(placed<PeerCopyLayout>(w));
  r.from_device = w.device, r.to_device = w.peer, r.from_context = w.context, r.to_context = w.peer + 1;
  append(r);
}

void append_set(const Work& w) {
  auto r = placed<SetLayout>(w);
  r.value = w.type, r.bytes = w.bytes, r.memory_kind = w.to_kind;
  append(r);
}

void append_sync(const Work& w) {
  auto r = timed<SyncLayout>(w);
  r.type = w.type, r.correlation = w.correlation, r.context = w.context, r.stream = w.stream, r.event = w.event;
  append(r);
}

void append_overhead(const Work& w) {
  auto r = timed<OverheadLayout>(w);
  r.type = w.type, r.object_kind = 2, r.object[0] = static_cast<uint32_t>(getpid());
  r.object[1] = thread_number(w.thread);
  append(r);
}

void append_memory(const Work& w) {
  MemoryLayout r{};
  r.kind = w.kind, r.operation = w.type, r.memory_kind = w.to_kind, r.correlation = w.correlation;
  r.address = w.address, r.bytes = w.bytes, r.time = stamp(w.start);
  r.process = static_cast<uint32_t>(getpid()), r.device = w.device, r.context = w.context, r.stream = w.stream;
  append(r);
}

void append_graph(const Work& w) {
  auto r = placed<GraphLayout>(w);
  r.graph = w.graph;
  append(r);
}

void append_devices() {
  const auto count = static_cast<uint32_t>(scenario("devices", 1));
  for (uint32_t d = 0; d < count; ++d) {
    DeviceLayout r{};
    r.kind = kDevice, r.id = d, r.name = "Simulated GPU";
    r.memory = uint64_t{80} << 30, r.bandwidth = 2'000'000'000, r.core_clock = 1'500'000;
    r.multiprocessors = 108, r.threads_per_warp = 32, r.compute_major = 8, r.compute_minor = 0;
    for (uint32_t i = 0; i < sizeof r.uuid; ++i) r.uuid[i] = static_cast<uint8_t>(i + 16 * d);
    append(r);
    ContextLayout c{};
    c.kind = kContext, c.id = d + 1, c.device = d, c.api = 1, c.null_stream = 0;
    if (on(kContext)) append(c);
  }
}

void trace_work(const Work& w) {
  if (!on(w.kind)) return;
  if (on(kKernel) && w.correlation % 64 == 1 && scenario("newer_kinds", 0)) {
    const uint32_t newer[kNewerBytes / 4] = {kNewerKind};
    append_record(newer, kNewerBytes);
  }
  switch (w.kind) {
    case kKernel: return append_kernel(w);
    case kCopy:
    case kPeerCopy: return append_copy(w);
    case kSet: return append_set(w);
    case kSync: return append_sync(w);
    case kOverhead: return append_overhead(w);
    case kMemory: return append_memory(w);
    case kGraph: return append_graph(w);
    default: return;
  }
}

thread_local uint64_t external_stack[8];
thread_local uint32_t external_types[8];
thread_local uint32_t external_depth = 0;

void trace_call(const ApiCall& call) {
  const Kind kind = call.driver ? kDriver : kRuntime;
  const uint32_t cbid = call.cbid % 1024;
  if (!on(kind) && !alone[call.driver][cbid].load(std::memory_order_relaxed)) return;
  if (silenced[call.driver][cbid].load(std::memory_order_relaxed)) return;
  ApiLayout r{};
  r.kind = kind, r.cbid = call.cbid, r.start = stamp(call.start), r.end = stamp(call.end);
  r.process = static_cast<uint32_t>(getpid());
  static thread_local const auto tid = static_cast<uint32_t>(gettid());
  r.thread = thread_number(tid);
  r.correlation = call.correlation, r.result = call.result;
  if (external_depth > 0 && on(kExternal)) {
    const uint32_t top = external_depth - 1;
    append(ExternalLayout{kExternal, external_types[top], external_stack[top], call.correlation, 0});
  }
  append(r);
}

void trace_callback(bool driver, uint32_t cbid, uint32_t site) {
  if (!callbacks_on[driver][cbid % 1024].load(std::memory_order_relaxed)) return;
  const Callback callback = subscriber.load();
  if (callback == nullptr) return;
  struct {
    uint32_t site;
    const char* name;
  } const info{site, "simulated"};
  callback(subscriber_data, driver ? 1 : 2, cbid, &info);
}

const Tracer the_tracer{trace_work, trace_call, trace_callback, [] { return on(kGraph); }};

// False where the driver is not in the process.
bool attach() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return false;
  const auto set = reinterpret_cast<void (*)(const Tracer*)>(dlsym(driver, "sim_set_tracer"));
  if (set != nullptr) set(&the_tracer);
  return set != nullptr;
}

size_t size_of(uint32_t kind) {
  switch (kind) {
    case kKernel: return sizeof(KernelLayout);
    case kCopy: return sizeof(CopyLayout);
    case kPeerCopy: return sizeof(PeerCopyLayout);
    case kSet: return sizeof(SetLayout);
    case kRuntime:
    case kDriver: return sizeof(ApiLayout);
    case kOverhead: return sizeof(OverheadLayout);
    case kSync: return sizeof(SyncLayout);
    case kExternal: return sizeof(ExternalLayout);
    case kMemory: return sizeof(MemoryLayout);
    case kGraph: return sizeof(GraphLayout);
    case kDevice: return sizeof(DeviceLayout);
    case kContext: return sizeof(ContextLayout);
    case kNewerKind: return kNewerBytes;
    default: return 0;
  }
}

int subscribe(void** handle, Callback callback, void* data, const char* name) {
  if (const int error = planted_error("cuptiSubscribe")) return error;
  if (const char* holder = scenario_text("holder")) {
    snprintf(subscriber_name, sizeof subscriber_name, "CUPTI for %.*s", static_cast<int>(strcspn(holder, ",")), holder);
    return kMultipleSubscribers;
  }
  if (subscriber.load() != nullptr) return kMultipleSubscribers;
  snprintf(subscriber_name, sizeof subscriber_name, "CUPTI for %.53s", name != nullptr ? name : "unnamed");
  subscriber_data = data;
  subscriber.store(callback);
  *handle = &subscriber;
  return kSuccess;
}

}  // namespace

#define SIM_PLANTED(name) \
  if (const int error = planted_error(name)) return error

SIM_EXPORT int cuptiGetVersion(uint32_t* version) {
  SIM_PLANTED("cuptiGetVersion");
  *version = static_cast<uint32_t>(scenario("api", kApiVersion));
  return kSuccess;
}
SIM_EXPORT int cuptiGetTimestamp(uint64_t* time) {
  *time = now();
  return kSuccess;
}
SIM_EXPORT int cuptiGetResultString(int result, const char** text) {
  *text = result == kMultipleSubscribers ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED" : "CUPTI_ERROR_SIMULATED";
  return kSuccess;
}
SIM_EXPORT int cuptiActivityRegisterCallbacks(BufferRequested requested, BufferCompleted completed) {
  SIM_PLANTED("cuptiActivityRegisterCallbacks");
  if (requested == nullptr || completed == nullptr) return kInvalidParameter;
  set_buffer_callbacks(requested, completed);
  return kSuccess;
}
SIM_EXPORT int cuptiActivityEnable(uint32_t kind) {
  SIM_PLANTED("cuptiActivityEnable");
  if (kind >= kKinds) return kInvalidKind;
  if (scenario("driverless", 0)) return kUnknownError;
  if (scenario("refuse_kind", -1) == static_cast<int64_t>(kind)) return 27;
  if (!attach()) return kUnknown;
  if (kind == kDriver || kind == kRuntime)  // it overrides what was said of single calls
    for (std::atomic<bool>& one : silenced[kind == kDriver]) one.store(false);
  if (enabled[kind].exchange(true)) return kSuccess;
  if (kind == kDevice) append_devices();
  return kSuccess;
}
SIM_EXPORT int cuptiActivityDisable(uint32_t kind) {
  SIM_PLANTED("cuptiActivityDisable");
  if (kind >= kKinds) return kInvalidKind;
  enabled[kind].store(false);
  if (kind == kDriver || kind == kRuntime)
    for (std::atomic<bool>& one : alone[kind == kDriver]) one.store(false);
  return kSuccess;
}
SIM_EXPORT int cuptiActivityFlushAll(uint32_t) {
  SIM_PLANTED("cuptiActivityFlushAll");
  if (!have_buffer_callbacks()) return kInvalidOperation;
  flush_buffers();
  return kSuccess;
}
SIM_EXPORT int cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, uint8_t** record) {
  if (buffer == nullptr || record == nullptr) return kInvalidParameter;
  uint8_t* next = buffer;
  if (*record != nullptr) {
    uint32_t kind;
    memcpy(&kind, *record, sizeof kind);
    next = *record + size_of(kind);
  }
  if (next >= buffer + valid) return kMaxLimitReached;
  uint32_t kind;
  memcpy(&kind, next, sizeof kind);
  if (size_of(kind) == 0) return kInvalidKind;
  *record = next;
  return kSuccess;
}
SIM_EXPORT int cuptiActivityGetNumDroppedRecords(void*, uint32_t, size_t* dropped) {
  *dropped = take_dropped();
  return kSuccess;
}
SIM_EXPORT int cuptiActivitySetAttribute(uint32_t attribute, size_t* size, void* value) {
  SIM_PLANTED("cuptiActivitySetAttribute");
  uint8_t byte;
  memcpy(&byte, value, sizeof byte);
  if (attribute == 5 && *size == sizeof byte) promise_zeroed(byte != 0);
  return attribute <= 8 ? kSuccess : kInvalidParameter;
}
SIM_EXPORT int cuptiSetThreadIdType(uint32_t type) {
  if (scenario("driverless", 0)) return kUnknownError;
  thread_id_type.store(type);
  return kSuccess;
}
SIM_EXPORT int cuptiActivityRegisterTimestampCallback(uint64_t (*callback)()) {
  timestamp_callback.store(callback);
  return kSuccess;
}
SIM_EXPORT int cuptiFinalize() {
  flush_buffers();
  for (std::atomic<bool>& kind : enabled) kind.store(false);
  subscriber.store(nullptr);
  timestamp_callback.store(nullptr);
  return kSuccess;
}
SIM_EXPORT int cuptiActivityPushExternalCorrelationId(uint32_t type, uint64_t id) {
  if (external_depth == 8) return kInvalidOperation;
  external_types[external_depth] = type;
  external_stack[external_depth++] = id;
  return kSuccess;
}
SIM_EXPORT int cuptiActivityPopExternalCorrelationId(uint32_t, uint64_t* last) {
  if (external_depth == 0) return kInvalidOperation;
  --external_depth;
  if (last != nullptr) *last = external_stack[external_depth];
  return kSuccess;
}
SIM_EXPORT int cuptiGetCallbackName(int domain, uint32_t cbid, const char** name) {
  struct Name {
    int domain;
    uint32_t cbid;
    const char* name;
  };
  static const Name names[] = {
      {1, 307, "cuLaunchKernel"},         {1, 514, "cuGraphLaunch"},
      {1, 304, "cuCtxGetCurrent"},        {1, 308, "cuProfilerStart"},
      {1, 309, "cuProfilerStop"},         {2, 10, "cudaGetLastError_v3020"},
      {2, 17, "cudaGetDevice_v3020"},     {2, 20, "cudaMalloc_v3020"},
      {2, 22, "cudaFree_v3020"},          {2, 31, "cudaMemcpy_v3020"},
      {2, 41, "cudaMemcpyAsync_v3020"},   {2, 51, "cudaMemsetAsync_v3020"},
      {2, 131, "cudaStreamSynchronize_v3020"}, {2, 137, "cudaEventSynchronize_v3020"},
      {2, 135, "cudaEventRecord_v3020"},  {2, 165, "cudaDeviceSynchronize_v3020"}, {2, 171, "cudaProfilerStart_v4000"},
      {2, 172, "cudaProfilerStop_v4000"}, {2, 211, "cudaLaunchKernel_v7000"},
      {2, 311, "cudaGraphLaunch_v10000"},
  };
  for (const Name& n : names)
    if (n.domain == domain && n.cbid == cbid) {
      *name = n.name;
      return kSuccess;
    }
  return kInvalidParameter;
}
SIM_EXPORT int cuptiSubscribe(void** handle, Callback callback, void* data) {
  return subscribe(handle, callback, data, nullptr);
}
SIM_EXPORT int cuptiUnsubscribe(void*) {
  subscriber.store(nullptr);
  return kSuccess;
}
SIM_EXPORT int cuptiEnableCallback(uint32_t enable, void* handle, int domain, uint32_t cbid) {
  if (handle != &subscriber || (domain != 1 && domain != 2)) return kInvalidParameter;
  callbacks_on[domain == 1][cbid % 1024].store(enable != 0);
  return attach() ? kSuccess : kUnknown;
}

#if SIM_CUPTI >= 12
SIM_EXPORT int cuptiActivityEnableDriverApi(uint32_t cbid, uint8_t enable) {
  alone[1][cbid % 1024].store(enable != 0);
  silenced[1][cbid % 1024].store(enable == 0);
  return attach() ? kSuccess : kUnknown;
}
SIM_EXPORT int cuptiActivityEnableRuntimeApi(uint32_t cbid, uint8_t enable) {
  alone[0][cbid % 1024].store(enable != 0);
  silenced[0][cbid % 1024].store(enable == 0);
  return attach() ? kSuccess : kUnknown;
}
#endif

#if SIM_CUPTI >= 13
namespace {
struct SubscriberParams {
  size_t size;
  const char* name;
  char* old_name;
  size_t old_size;
};
}  // namespace
SIM_EXPORT int cuptiSubscribe_v2(void** handle, Callback callback, void* data, SubscriberParams* params) {
  if (params != nullptr && params->size == 0) return kInvalidParameter;
  const int result = subscribe(handle, callback, data, params != nullptr ? params->name : nullptr);
  if (result == kMultipleSubscribers && params != nullptr && params->old_name != nullptr)
    snprintf(params->old_name, params->old_size, "%s", subscriber_name);
  return result;
}
#endif

/// Moves the clock of records from now on, as a change of the timestamp callback or of the machine's time would.
SIM_EXPORT void sim_clock_jump(int64_t ns) { clock_jump.fetch_add(ns); }
