#include "record/inject/cupti_decode.h"

#include <stdio.h>
#include <string.h>

#include <initializer_list>

#include "record/inject/glibc.h"
#include "record/inject/names.h"

namespace profgpu::inject::cupti {
namespace {

// The driver's calls that start work on a device; the others are useless and many. From NVIDIA's public lists of
// callback numbers: cuLaunch, cuLaunchGrid(Async), cuLaunchKernel, cuLaunchCooperativeKernel (MultiDevice),
// cuGraphLaunch, cuLaunchKernelEx, and those for per-thread streams.
constexpr uint32_t kWorkCalls[] = {115, 116, 117, 307, 442, 477, 478, 480, 514, 515, 652, 653};
// The runtime's calls that programs make all the time and that take no time, left out by CUPTI where it can:
// cudaGetLastError, cudaPeekAtLastError, cudaSetDevice, cudaGetDevice, cudaDeviceGetAttribute, cudaStreamIsCapturing,
// cudaStreamGetCaptureInfo and their variants.
constexpr uint32_t kChatter[] = {10, 11, 16, 17, 200, 317, 318, 324, 325, 409, 410, 461, 462};

constexpr uint32_t kMaxCalls = 1024;  // callback numbers; there were 523 of the runtime in 13.0
constexpr uint32_t kMaxContexts = 64;
constexpr uint32_t kMaxDevices = 64;
constexpr size_t kNameSlots = 2048;
constexpr uint32_t kWholeContext = 0xffffffff;

struct KnownName {
  uint64_t hash;
  uint32_t id;
};

// All under Collecting.
struct Decoder {
  uint32_t version;
  uint32_t call_names[2][kMaxCalls];  // driver, runtime
  bool work_call[kMaxCalls], chatter[kMaxCalls];
  KnownName names[kNameSlots];
  uint32_t context_device[kMaxContexts];  // device + 1; of contexts by their number, modulo
  wire::DeviceRow devices[kMaxDevices];
  uint32_t device_count, devices_done;
};
Decoder decoder;

int64_t time_of(uint64_t ns) { return static_cast<int64_t>(ns); }

// A cache before intern(): kernels have few names, and long ones.
uint32_t name_id(const char* name) {
  if (name == nullptr) return 0;
  const size_t length = strlen(name);
  const uint64_t hash = hash_of(name, length);
  KnownName& known = decoder.names[hash % kNameSlots];
  if (known.hash != hash || known.id == 0) known = {hash, intern(name, length)};
  return known.id;
}

// "cudaMemcpyAsync_ptsz_v7000" is known as cudaMemcpyAsync.
uint32_t intern_call(const char* name, bool runtime) {
  size_t length = strlen(name);
  if (const char* version = runtime ? strrchr(name, '_') : nullptr)
    if (version[1] == 'v' && version[2] >= '0' && version[2] <= '9') length = static_cast<size_t>(version - name);
  for (const char* suffix : {"_ptsz", "_ptds"})
    if (length > 5 && memcmp(name + length - 5, suffix, 5) == 0) length -= 5;
  return intern(name, length);
}

uint32_t call_name(const Calls& calls, bool runtime, uint32_t cbid) {
  uint32_t unused = 0;
  uint32_t& id = cbid < kMaxCalls ? decoder.call_names[runtime][cbid] : unused;
  if (id != 0) return id;
  const char* name = nullptr;
  if (calls.GetCallbackName != nullptr &&
      calls.GetCallbackName(runtime ? kRuntimeApi : kDriverApi, cbid, &name) == kSuccess && name != nullptr) {
    id = intern_call(name, runtime);
  } else {
    char text[48];
    snprintf(text, sizeof text, "%s call %u", runtime ? "runtime" : "driver", cbid);
    id = intern(text);
  }
  return id;
}

void know_context(uint32_t context, uint32_t device) { decoder.context_device[context % kMaxContexts] = device + 1; }
uint32_t device_of(uint32_t context) {
  const uint32_t known = decoder.context_device[context % kMaxContexts];
  return known == 0 ? 0 : known - 1;
}

template <typename Record>
uint32_t queue_of(const Record& r, const Collecting& held) { return held->queue_id(r.device, r.context, r.stream); }

template <typename Row, typename Record>
Row timed(const Record& r) {
  Row row;
  row.start_ns = time_of(r.start);
  row.duration_ns = r.end > r.start ? time_of(r.end - r.start) : 0;  // a clock may be set back in between
  return row;
}
template <typename Row, typename Record>
Row activity(const Record& r, const Collecting& held) {
  auto row = timed<Row>(r);
  row.queue = queue_of(r, held);
  row.correlation = r.correlation;
  return row;
}

// Finished records to rows.

void put(const ApiRecord& r, const Collecting& held, const Calls& calls) {
  auto row = timed<wire::Call>(r);
  row.name = call_name(calls, r.kind == kRuntime, r.cbid);
  row.thread = thread_id(r.thread);
  row.correlation = r.correlation;
  row.is_driver = r.kind != kRuntime;
  row.result = r.result;
  held->append(row);
}
void put(const KernelRecord& r, const Collecting& held) {
  wire::LaunchShape shape;
  memcpy(shape.grid, r.grid, sizeof shape.grid);
  memcpy(shape.block, r.block, sizeof shape.block);
  shape.registers = r.registers;
  shape.static_shared_bytes = r.static_shared;
  shape.dynamic_shared_bytes = r.dynamic_shared;
  know_context(r.context, r.device);
  auto row = activity<wire::Kernel>(r, held);
  row.name = name_id(r.name);
  row.shape = held->shape_id(shape);
  row.graph = r.graph;
  row.graph_node = r.graph_node;
  held->append(row);
}

template <typename Record>
wire::Copy copy_of(const Record& r, const Collecting& held) {
  auto row = activity<wire::Copy>(r, held);
  row.bytes = r.bytes;
  row.copy_kind = r.copy_kind, row.from_kind = r.from_kind, row.to_kind = r.to_kind;
  row.is_async = (r.flags & kFlagAsync) != 0;
  row.graph_node = r.graph_node;
  if (decoder.version >= kApi_11_1) row.graph = r.graph;
  return row;
}
void put(const MemcpyRecord& r, const Collecting& held) { held->append(copy_of(r, held)); }
void put(const MemcpyPeerRecord& r, const Collecting& held) {
  wire::Copy row = copy_of(r, held);
  row.peer = (r.device == r.from_device ? r.to_device : r.from_device) + 1;
  held->append(row);
}
void put(const MemsetRecord& r, const Collecting& held) {
  auto row = activity<wire::Set>(r, held);
  row.bytes = r.bytes;
  row.value = r.value;
  row.memory_kind = static_cast<uint8_t>(r.memory_kind);
  row.graph_node = r.graph_node;
  if (decoder.version >= kApi_11_1) row.graph = r.graph;
  held->append(row);
}
void put(const SynchronizationRecord& r, const Collecting& held) {
  auto row = timed<wire::Sync>(r);
  row.queue = held->queue_id(device_of(r.context), r.context, r.type == 4 ? kWholeContext : r.stream);
  row.correlation = r.correlation;
  row.type = static_cast<uint8_t>(r.type);
  row.event = r.event;
  held->append(row);
}
void put(const OverheadRecord& r, const Collecting& held) {
  auto row = timed<wire::Overhead>(r);
  row.type = r.type;
  row.thread = r.object_kind == kObjectThread ? thread_id(r.thread) : 0;
  held->append(row);
}
void put(const MemoryRecord& r, const Collecting& held) {
  wire::Allocation row;
  row.time_ns = time_of(r.time);
  row.address = r.address;
  row.bytes = r.bytes;
  row.queue = queue_of(r, held);
  row.correlation = r.correlation;
  row.is_free = r.operation == kAllocationRelease;
  row.memory_kind = static_cast<uint8_t>(r.memory_kind);
  held->append(row);
}
void put(const GraphRecord& r, const Collecting& held) {
  auto row = activity<wire::GraphLaunch>(r, held);
  row.graph = r.graph;
  held->append(row);
}
void put(const ExternalRecord& r, const Collecting& held) {
  held->append(wire::ExternalId{r.correlation, r.type, r.external});
}
void put(const ContextRecord& r, const Collecting&) { know_context(r.id, r.device); }

void put(const DeviceRecord& r, const Collecting&) {
  if (decoder.version < kApi_11_6 || decoder.device_count == kMaxDevices) return;
  for (uint32_t i = 0; i < decoder.device_count; ++i)
    if (decoder.devices[i].id == r.id) return;
  char uuid[48];
  int at = snprintf(uuid, sizeof uuid, "GPU-");
  for (int i = 0; i < 16; ++i)
    at += snprintf(uuid + at, sizeof uuid - static_cast<size_t>(at), "%s%02x",
                   i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", r.uuid[i]);
  wire::DeviceRow& row = decoder.devices[decoder.device_count];
  row = {};
  row.id = r.id;
  row.name = r.name != nullptr ? intern(r.name) : 0;
  row.uuid = intern(uuid);
  row.memory_bytes = r.memory_bytes;
  row.compute_major = r.compute_major;
  row.compute_minor = r.compute_minor;
  row.multiprocessors = r.multiprocessors;
  ++decoder.device_count;
}

template <typename Record>
bool is_left_out(const Record&) {
  return false;
}
bool is_left_out(const ApiRecord& r) {
  const uint32_t at = r.cbid < kMaxCalls ? r.cbid : 0;
  return r.kind == kRuntime ? decoder.chatter[at] : !decoder.work_call[at];
}

template <typename Record>
bool is_finished(const Record& r) {
  if constexpr (requires { r.end; }) return r.start != 0 && r.end != 0;
  else if constexpr (requires { r.time; }) return r.time != 0;
  else return true;
}

// A record's fields may be anywhere in the buffer, whose end may cut it. False: it has no row.
template <typename Record, typename... Arguments>
bool take(const uint8_t* record, const uint8_t* end, const Arguments&... arguments) {
  Record r;
  if (static_cast<size_t>(end - record) < sizeof r) return false;
  memcpy(&r, record, sizeof r);
  if (is_left_out(r)) return true;
  if (!is_finished(r)) return false;
  put(r, arguments...);
  return true;
}

bool take_any(uint32_t kind, const Calls& calls, const uint8_t* at, const uint8_t* end, const Collecting& held) {
  switch (kind) {
    case kConcurrentKernel: return take<KernelRecord>(at, end, held);
    case kMemcpy: return take<MemcpyRecord>(at, end, held);
    case kMemcpyPeer: return take<MemcpyPeerRecord>(at, end, held);
    case kMemset: return take<MemsetRecord>(at, end, held);
    case kDriver:
    case kRuntime: return take<ApiRecord>(at, end, held, calls);
    case kSynchronization: return take<SynchronizationRecord>(at, end, held);
    case kOverhead: return take<OverheadRecord>(at, end, held);
    case kMemory2: return take<MemoryRecord>(at, end, held);
    case kGraphTrace: return take<GraphRecord>(at, end, held);
    case kExternalCorrelation: return take<ExternalRecord>(at, end, held);
    case kDevice: return take<DeviceRecord>(at, end, held);
    case kContext: return take<ContextRecord>(at, end, held);
    default: return true;
  }
}

}  // namespace

void reset_decoder(uint32_t version) {
  memset(static_cast<void*>(&decoder), 0, sizeof decoder);
  decoder.version = version;
  for (const uint32_t cbid : kWorkCalls) decoder.work_call[cbid] = true;
  for (const uint32_t cbid : kChatter) decoder.chatter[cbid] = true;
}

Undecoded decode(const Calls& calls, uint8_t* buffer, size_t valid, const Collecting& held) {
  Undecoded undecoded;
  uint8_t* record = nullptr;
  Result result;
  while ((result = calls.ActivityGetNextRecord(buffer, valid, &record)) == kSuccess) {
    const uint8_t* const end = buffer + valid;
    if (record < buffer || record + sizeof(uint32_t) > end) break;
    uint32_t kind;
    memcpy(&kind, record, sizeof kind);
    undecoded.unfinished += !take_any(kind, calls, record, end, held);
  }
  undecoded.damaged = result != kMaxLimitReached;
  return undecoded;
}

uint64_t count_records(const Calls& calls, uint8_t* buffer, size_t valid) {
  uint64_t count = 0;
  for (uint8_t* record = nullptr; calls.ActivityGetNextRecord(buffer, valid, &record) == kSuccess;) ++count;
  return count;
}

void add_seen_devices() {
  using BusId = int (*)(char*, int, int);
  for (;;) {
    wire::DeviceRow row;
    uint32_t at;
    {
      const Collecting held;
      at = decoder.devices_done;
      if (at == decoder.device_count) return;
      row = decoder.devices[at];
    }
    // Without the lock: the driver may have locks of its own, and CUPTI's thread may wait for ours.
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    const auto bus_id = driver != nullptr ? reinterpret_cast<BusId>(dlsym(driver, "cuDeviceGetPCIBusId")) : nullptr;
    char bus[32] = "";
    if (bus_id != nullptr && bus_id(bus, sizeof bus, static_cast<int>(row.id)) == 0) row.pci = intern(bus);
    // Only now: a program that ends meanwhile adds it itself.
    const Collecting held;
    if (decoder.devices_done != at) continue;
    held->devices.add(row);
    ++decoder.devices_done;
  }
}

namespace {

// In the order in which they are enabled. Without `must` the recording continues where CUPTI rejects a kind.
struct WantedKind {
  Kind kind;
  bool must;
  const char* what;
};
constexpr WantedKind kWanted[] = {
    {kDevice, false, "devices"},
    {kContext, false, "contexts"},
    {kConcurrentKernel, true, "kernels"},
    {kMemcpy, true, "copies"},
    {kMemcpyPeer, false, "copies between devices"},
    {kMemset, false, "memory sets"},
    {kRuntime, false, "calls of the CUDA runtime"},
    {kDriver, false, "calls of the CUDA driver"},
    {kSynchronization, false, "synchronization"},
    {kOverhead, false, "the profiler's own overhead"},
    {kMemory2, false, "allocations"},
    {kExternalCorrelation, false, "frameworks' own numbers of calls"},
    {kGraphTrace, false, "whole graph launches"},
};

// Leaves out useless calls where CUPTI can; else the decoder does.
Result enable(const Calls& calls, Kind kind) {
  if (kind == kDriver && calls.ActivityEnableDriverApi != nullptr) {
    Result result = kSuccess;
    for (const uint32_t cbid : kWorkCalls)
      if (const Result r = calls.ActivityEnableDriverApi(cbid, 1); r != kSuccess) result = r;
    return result;
  }
  const Result result = calls.ActivityEnable(kind);
  if (kind == kRuntime && result == kSuccess && calls.ActivityEnableRuntimeApi != nullptr)
    for (const uint32_t cbid : kChatter) calls.ActivityEnableRuntimeApi(cbid, 0);
  return result;
}

}  // namespace

void disable_kinds(const Calls& calls) {
  if (calls.ActivityEnableDriverApi != nullptr)
    for (const uint32_t cbid : kWorkCalls) calls.ActivityEnableDriverApi(cbid, 0);
  for (const WantedKind& w : kWanted) calls.ActivityDisable(w.kind);
}

bool enable_kinds(const Calls& calls, bool whole_graphs, bool report, char* reason, size_t size) {
  Result refused[sizeof kWanted / sizeof *kWanted] = {};
  for (const WantedKind& w : kWanted) {
    if (w.kind == kGraphTrace && !whole_graphs) continue;
    const Result result = enable(calls, w.kind);
    refused[&w - kWanted] = result;
    if (result == kSuccess || !w.must) continue;
    disable_kinds(calls);
    snprintf(reason, size, "CUPTI cannot record %s: error %d%s", w.what, result,
             result == kInsufficientPrivileges ? " (the driver allows it to administrators only)" : "");
    return false;
  }
  // Only now: where nothing is recorded, other missing kinds do not matter.
  for (const WantedKind& w : kWanted) {
    const Result result = refused[&w - kWanted];
    if (!report || result == kSuccess) continue;
    char sentence[120];
    snprintf(sentence, sizeof sentence, "CUPTI does not record %s: error %d", w.what, result);
    note(wire::Severity::kWarning, sentence);
  }
  return true;
}

}  // namespace profgpu::inject::cupti
