// A stand-in for libcuda.so.1 with a clock of its own. README.md says how it is driven.
#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "model.h"

namespace {

constexpr int kMaxDevices = 16;
constexpr size_t kMaxContent = 16 << 20;
constexpr int kOutOfMemory = 2, kInvalidValue = 1, kNoDevice = 100, kLost = 719;

struct ModelStream {
  int device;
  double end_ns = 0;
  double product_end_ns = 0, collective_end_ns = 0;   // of the newest of them
  double captured_ns = -1;   // of the graph that is being captured; -1: none
};
struct ModelEvent {
  double at_ns = 0;
};
struct ModelGraph {
  double ns;
};
struct ModelContext {
  int device;
};

std::recursive_mutex lock;
// Kept until the end, so that a client which cannot destroy what is on a lost device leaks nothing.
std::deque<ModelStream> streams;
std::deque<ModelEvent> events;
std::deque<ModelGraph> graphs;
double host_ns = 1000;
ModelContext contexts[kMaxDevices];
thread_local int current = -1;
struct ModelMemory {
  uint64_t size = 0;
  std::map<uint64_t, int> runs;   // from where on it holds which byte
};
std::map<uint64_t, ModelMemory> allocated;   // by address
uint64_t used[kMaxDevices];
uint64_t next_address = 1 << 20;
struct CachedRange {
  uint64_t address, bytes;
};
std::deque<CachedRange> cached[kMaxDevices];   // what the last cache holds, the newest first
std::map<std::pair<int, int>, double> way_end_ns;   // of the newest copy from one device to another
std::map<const void*, double> pinned;   // share of the full rate
std::map<std::string, int64_t> calls;
int64_t works[kMaxDevices];

// The text of KEY in CUDA_MODEL; null: it is not there.
const char* text_of(const std::string& key) {
  const char* at = std::getenv("CUDA_MODEL");
  for (; at && *at; at = std::strchr(at, ',') ? std::strchr(at, ',') + 1 : nullptr)
    if (std::strncmp(at, key.c_str(), key.size()) == 0 && at[key.size()] == '=') return at + key.size() + 1;
  return nullptr;
}

std::string word_of(const char* text) { return std::string(text, std::strcspn(text, ",")); }

void pass(const char* key, double otherwise) { host_ns += model_setting(key, current, otherwise); }

int copy(ModelStream* stream, double bytes, const char* rate, double gbps) {
  return model_work(stream, model_setting("copy_ns", stream->device, 1200) +
                                bytes / model_setting(rate, stream->device, gbps));
}

// The memory that an address is in; null: none.
ModelMemory* memory_at(uint64_t address, uint64_t& offset) {
  const auto after = allocated.upper_bound(address);
  if (after == allocated.begin()) return nullptr;
  const auto it = std::prev(after);
  offset = address - it->first;
  return offset < it->second.size ? &it->second : nullptr;
}

int byte_at(const ModelMemory& memory, uint64_t offset) {
  const auto after = memory.runs.upper_bound(offset);
  return after == memory.runs.begin() ? 0 : std::prev(after)->second;
}

int device_at(uint64_t address) { return static_cast<int>(address >> 48) - 1; }

// The stand-in for NVML, where the program has opened it, counts what is in use.
void take_in_nvml(int device, double bytes) {
  const char* path = std::getenv("PROFGPU_NVML_LIBRARY");
  void* library = path ? ::dlopen(path, RTLD_NOW | RTLD_NOLOAD) : nullptr;
  if (!library) return;
  using Take = void (*)(uint32_t, int64_t);
  if (const auto take = reinterpret_cast<Take>(::dlsym(library, "profgpu_stub_take_memory")))
    take(static_cast<uint32_t>(device), static_cast<int64_t>(bytes));
  ::dlclose(library);
}

int64_t cache_bytes(int device) { return static_cast<int64_t>(model_setting("l2", device, 50 << 20)); }

}  // namespace

#define ENTER(function)                                       \
  const std::lock_guard guard(lock);                          \
  if (const int failed = model_enter(function)) return failed

MODEL_EXPORT double model_setting(const char* key, int device, double otherwise) {
  const char* text = device < 0 ? nullptr : text_of(std::to_string(device) + "." + key);
  if (!text) text = text_of(key);
  return text ? std::strtod(text, nullptr) : otherwise;
}

MODEL_EXPORT int model_enter(const char* function) {
  const std::lock_guard guard(lock);
  const char* hang = text_of("hang");
  while (hang && word_of(hang) == function) ::pause();
  if (current >= 0 && static_cast<double>(works[current]) > model_setting("lost_after", current, 1e18)) return kLost;
  const char* fail = text_of("fail");
  if (!fail) return 0;
  const std::string word = word_of(fail);
  const size_t colon = word.find(':');
  if (word.substr(0, colon) != function) return 0;
  char* end = nullptr;
  const long code = std::strtol(word.c_str() + colon + 1, &end, 10);
  const int64_t after = *end == ':' ? std::strtoll(end + 1, nullptr, 10) : 0;
  return calls[function]++ >= after ? static_cast<int>(code) : 0;
}

namespace {

// From -1 to 1, the same for each number in every run (splitmix64).
double even_noise(uint64_t number) {
  uint64_t x = number * 0x9e3779b97f4a7c15U;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
  x = (x ^ x >> 27) * 0x94d049bb133111ebU;
  constexpr double kHalf = 9223372036854775808.0;   // 2^63
  return static_cast<double>(x ^ x >> 31) / kHalf - 1;
}

}  // namespace

MODEL_EXPORT int model_work(void* handle, double ns) {
  const std::lock_guard guard(lock);
  auto* stream = static_cast<ModelStream*>(handle);
  const int64_t work = ++works[stream->device];
  const auto setting = [&](const char* key, double otherwise) {
    return static_cast<int64_t>(model_setting(key, stream->device, otherwise));
  };
  if (work > setting("lost_after", 1e18)) return kLost;
  if (work <= setting("cold", 0)) ns *= 2;
  if (work > setting("throttle_after", 1e18)) ns *= model_setting("throttle", stream->device, 2);
  if (const int64_t every = setting("slow_every", 0); every > 0 && work % every == 0) ns *= 2;
  if (const double jitter_pct = model_setting("jitter", stream->device, 0); jitter_pct > 0)
    ns *= 1 + jitter_pct / 100 * even_noise(static_cast<uint64_t>(work));
  if (stream->captured_ns >= 0) return stream->captured_ns += ns, 0;
  stream->end_ns = std::max(stream->end_ns, host_ns) + ns;
  return 0;
}

namespace {

// How long `ns` take from when they begin, if they go `slowdown` times slower until `until_ns`.
double beside_ns(double begin_ns, double ns, double until_ns, double slowdown) {
  const double together_ns = std::max(0.0, until_ns - begin_ns);
  return std::min(ns * slowdown, ns + together_ns * (1 - 1 / slowdown));
}

int slowed_work(ModelStream* stream, double ns, double ModelStream::*own_end, double ModelStream::*other_end,
                const char* slowdown) {
  double until_ns = 0;
  for (const ModelStream& s : streams)
    if (&s != stream && s.device == stream->device) until_ns = std::max(until_ns, s.*other_end);
  const double begin_ns = std::max(stream->end_ns, host_ns);
  const int failed =
      model_work(stream, beside_ns(begin_ns, ns, until_ns, model_setting(slowdown, stream->device, 1)));
  stream->*own_end = stream->end_ns;
  return failed;
}

}  // namespace

MODEL_EXPORT const char* model_text(const char* key) { return text_of(key); }
MODEL_EXPORT int model_product(void* stream, double ns) {
  const std::lock_guard guard(lock);
  return slowed_work(static_cast<ModelStream*>(stream), ns, &ModelStream::product_end_ns,
                     &ModelStream::collective_end_ns, "product_beside");
}
MODEL_EXPORT int model_collective(void* stream, double ns) {
  const std::lock_guard guard(lock);
  return slowed_work(static_cast<ModelStream*>(stream), ns, &ModelStream::collective_end_ns,
                     &ModelStream::product_end_ns, "collective_beside");
}
MODEL_EXPORT int model_touch(int device, uint64_t address, uint64_t bytes) {
  const std::lock_guard guard(lock);
  std::deque<CachedRange>& held = cached[device];
  const auto at = std::ranges::find_if(held, [&](const CachedRange& r) { return r.address == address && r.bytes == bytes; });
  const bool was_there = at != held.end();
  if (was_there) held.erase(at);
  held.push_front({address, bytes});
  uint64_t sum = 0;
  size_t kept = 0;
  while (kept < held.size() && (sum += held[kept].bytes) <= static_cast<uint64_t>(cache_bytes(device))) ++kept;
  held.resize(kept);
  return was_there && kept > 0;
}
MODEL_EXPORT int model_device() { return current; }
MODEL_EXPORT int model_stream_device(void* stream) { return static_cast<ModelStream*>(stream)->device; }
MODEL_EXPORT void model_pass(double ns) {
  const std::lock_guard guard(lock);
  host_ns += ns;
}
MODEL_EXPORT void model_fill(uint64_t address, uint64_t bytes, int value) {
  const std::lock_guard guard(lock);
  uint64_t offset = 0;
  ModelMemory* memory = memory_at(address, offset);
  if (!memory || bytes == 0) return;
  const int after = byte_at(*memory, offset + bytes);
  memory->runs.erase(memory->runs.lower_bound(offset), memory->runs.lower_bound(offset + bytes));
  memory->runs[offset] = value;
  memory->runs[offset + bytes] = after;
}
MODEL_EXPORT int model_byte(uint64_t address) {
  const std::lock_guard guard(lock);
  uint64_t offset = 0;
  const ModelMemory* memory = memory_at(address, offset);
  return memory ? byte_at(*memory, offset) : 0;
}
MODEL_EXPORT int64_t profgpu_stub_now_ns() {
  const std::lock_guard guard(lock);
  return static_cast<int64_t>(host_ns);
}

MODEL_EXPORT int cuInit(unsigned) {
  ENTER("cuInit");
  return model_setting("no_device", -1, 0) != 0 ? kNoDevice : 0;
}
MODEL_EXPORT int cuGetErrorString(int code, const char** text) {
  *text = code == kOutOfMemory ? "out of memory"
          : code == kNoDevice  ? "no CUDA-capable device is detected"
          : code == kLost      ? "unspecified launch failure"
                               : "simulated error";
  return 0;
}
MODEL_EXPORT int cuGetErrorName(int code, const char** text) {
  *text = code == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY"
          : code == kNoDevice  ? "CUDA_ERROR_NO_DEVICE"
          : code == kLost      ? "CUDA_ERROR_LAUNCH_FAILED"
                               : "CUDA_ERROR_SIMULATED";
  return 0;
}
MODEL_EXPORT int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
MODEL_EXPORT int cuDeviceGetCount(int* count) {
  ENTER("cuDeviceGetCount");
  *count = static_cast<int>(std::min<double>(model_setting("devices", -1, 1), kMaxDevices));
  return 0;
}
MODEL_EXPORT int cuDeviceGet(int* device, int index) {
  ENTER("cuDeviceGet");
  return *device = index, 0;
}
MODEL_EXPORT int cuDeviceGetName(char* text, int size, int) {
  ENTER("cuDeviceGetName");
  return std::snprintf(text, static_cast<size_t>(size), "Simulated GPU"), 0;
}
MODEL_EXPORT int cuDeviceGetUuid_v2(unsigned char* bytes, int device) {
  std::memset(bytes, 0, 16);
  return bytes[15] = static_cast<unsigned char>(device), 0;
}
MODEL_EXPORT int cuDeviceGetPCIBusId(char* text, int size, int device) {
  return std::snprintf(text, static_cast<size_t>(size), "0000:%02X:00.0", 0x10 + device), 0;
}
MODEL_EXPORT int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  return *bytes = static_cast<size_t>(model_setting("memory", device, 80e9)), 0;
}
MODEL_EXPORT int cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (attribute == 38) return *value = static_cast<int>(cache_bytes(device)), 0;
  return *value = attribute == 16 ? 132 : attribute == 75 ? 9 : 0, 0;
}
MODEL_EXPORT int cuDeviceCanAccessPeer(int* can, int, int) { return *can = model_setting("no_peer", -1, 0) == 0, 0; }
MODEL_EXPORT int cuDevicePrimaryCtxRetain(void** context, int device) {
  ENTER("cuDevicePrimaryCtxRetain");
  contexts[device].device = device;
  host_ns += model_setting("context_ns", device, 150e6);
  take_in_nvml(device, model_setting("context_memory", device, 500e6));
  return *context = &contexts[device], 0;
}
MODEL_EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
  take_in_nvml(device, -model_setting("context_memory", device, 500e6));
  return 0;
}
MODEL_EXPORT int cuCtxSetCurrent(void* context) {
  current = static_cast<ModelContext*>(context)->device;
  ENTER("cuCtxSetCurrent");
  return 0;
}
MODEL_EXPORT int cuCtxSynchronize() {
  ENTER("cuCtxSynchronize");
  return 0;
}
MODEL_EXPORT int cuCtxEnablePeerAccess(void*, unsigned) { return 0; }

MODEL_EXPORT int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  ENTER("cuMemAlloc_v2");
  if (static_cast<double>(used[current] + bytes) > model_setting("memory", current, 80e9)) return kOutOfMemory;
  pass("alloc_ns", 50'000);
  *address = (static_cast<uint64_t>(current) + 1) << 48 | next_address;
  next_address += (bytes + 511) / 512 * 512;
  used[current] += bytes;
  allocated[*address].size = bytes;
  return 0;
}
MODEL_EXPORT int cuMemFree_v2(uint64_t address) {
  ENTER("cuMemFree_v2");
  const auto it = allocated.find(address);
  if (it == allocated.end()) return kInvalidValue;
  used[device_at(address)] -= it->second.size;
  allocated.erase(it);
  return 0;
}
MODEL_EXPORT int cuMemHostAlloc(void** data, size_t bytes, unsigned) {
  ENTER("cuMemHostAlloc");
  *data = std::malloc(bytes);
  // Memory is of the node that the calling thread runs on: the node of this processor is `far_share` as fast.
  cpu_set_t cpus;
  const auto far_cpu = static_cast<int>(model_setting("far_cpu", -1, -1));
  const bool is_far = far_cpu >= 0 && ::sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) == 1 &&
                      CPU_ISSET(far_cpu, &cpus);
  pinned[*data] = is_far ? model_setting("far_share", -1, 0.5) : 1;
  return 0;
}
MODEL_EXPORT int cuMemFreeHost(void* data) {
  const std::lock_guard guard(lock);
  if (pinned.erase(data) == 0) return kInvalidValue;
  std::free(data);
  return 0;
}
MODEL_EXPORT int cuMemsetD8Async(uint64_t address, unsigned char value, size_t bytes, ModelStream*) {
  ENTER("cuMemsetD8Async");
  return model_fill(address, bytes, value), 0;
}

namespace {

// Pageable memory is copied while the call lasts.
int host_copy(ModelStream* stream, const void* host, double bytes, const char* rate) {
  if (const auto at = pinned.find(host); at != pinned.end()) return copy(stream, bytes / at->second, rate, 50);
  const int failed = copy(stream, bytes, "pageable", 10);
  host_ns = std::max(host_ns, stream->end_ns);
  return failed;
}

}  // namespace

MODEL_EXPORT int cuMemcpyHtoDAsync_v2(uint64_t, const void* from, size_t bytes, ModelStream* stream) {
  ENTER("cuMemcpyHtoDAsync_v2");
  return host_copy(stream, from, static_cast<double>(bytes), "h2d");
}
MODEL_EXPORT int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, ModelStream* stream) {
  ENTER("cuMemcpyDtoHAsync_v2");
  uint64_t offset = 0;
  // Whoever copies more measures, and does not look at it.
  if (const ModelMemory* memory = memory_at(from, offset); memory && bytes <= kMaxContent)
    for (uint64_t at = 0; at < bytes;) {
      const auto next = memory->runs.upper_bound(offset + at);
      const uint64_t end = next == memory->runs.end() ? bytes : std::min<uint64_t>(bytes, next->first - offset);
      std::memset(static_cast<char*>(to) + at, byte_at(*memory, offset + at), end - at);
      at = end;
    }
  if (static_cast<double>(works[stream->device]) > model_setting("flip_after", stream->device, 1e18))
    *static_cast<char*>(to) ^= 1;
  return host_copy(stream, to, static_cast<double>(bytes), "d2h");
}
MODEL_EXPORT int cuMemcpyDtoDAsync_v2(uint64_t, uint64_t, size_t bytes, ModelStream* stream) {
  ENTER("cuMemcpyDtoDAsync_v2");
  return copy(stream, 2 * static_cast<double>(bytes), "local", 2000);
}
// A way between two devices has its own rate where the scenario gives it one. The other way at once slows it.
MODEL_EXPORT int cuMemcpyPeerAsync(uint64_t to, void*, uint64_t from, void*, size_t bytes, ModelStream* stream) {
  ENTER("cuMemcpyPeerAsync");
  const int a = device_at(from), b = device_at(to);
  const std::string way = "way." + std::to_string(a) + "." + std::to_string(b);
  const double gbps = model_setting(way.c_str(), -1, model_setting("peer", stream->device, 300));
  const double alone_ns = model_setting("copy_ns", stream->device, 1200) + static_cast<double>(bytes) / gbps;
  const double begin_ns = std::max(stream->end_ns, host_ns);
  const double ns = beside_ns(begin_ns, alone_ns, way_end_ns[{b, a}], model_setting("peer_beside", -1, 1));
  const int failed = model_work(stream, ns);
  way_end_ns[{a, b}] = stream->end_ns;
  return failed;
}

MODEL_EXPORT int cuStreamCreate(ModelStream** stream, unsigned) {
  ENTER("cuStreamCreate");
  return *stream = &streams.emplace_back(ModelStream{current}), 0;
}
MODEL_EXPORT int cuStreamDestroy_v2(ModelStream*) { return 0; }
MODEL_EXPORT int cuStreamSynchronize(ModelStream* stream) {
  ENTER("cuStreamSynchronize");
  host_ns = std::max(host_ns, stream->end_ns);
  pass("sync_ns", 1500);
  return 0;
}
MODEL_EXPORT int cuStreamWaitEvent(ModelStream* stream, ModelEvent* event, unsigned) {
  ENTER("cuStreamWaitEvent");
  pass("event_ns", 400);
  stream->end_ns = std::max(stream->end_ns, event->at_ns);
  return 0;
}
MODEL_EXPORT int cuEventCreate(ModelEvent** event, unsigned) {
  ENTER("cuEventCreate");
  return *event = &events.emplace_back(), 0;
}
MODEL_EXPORT int cuEventDestroy_v2(ModelEvent*) { return 0; }
MODEL_EXPORT int cuEventRecord(ModelEvent* event, ModelStream* stream) {
  ENTER("cuEventRecord");
  event->at_ns = std::max(stream->end_ns, host_ns);
  pass("event_ns", 400);
  return 0;
}
MODEL_EXPORT int cuEventElapsedTime(float* ms, ModelEvent* begin, ModelEvent* end) {
  ENTER("cuEventElapsedTime");
  return *ms = static_cast<float>((end->at_ns - begin->at_ns) / 1e6), 0;
}

MODEL_EXPORT int cuModuleLoadData(void** module, const void* image) {
  ENTER("cuModuleLoadData");
  if (const char* path = text_of("dump"))
    if (FILE* file = std::fopen(word_of(path).c_str(), "w")) {
      std::fputs(static_cast<const char*>(image), file);
      std::fclose(file);
    }
  return *module = const_cast<void*>(image), 0;
}
MODEL_EXPORT int cuModuleUnload(void*) { return 0; }
MODEL_EXPORT int cuModuleGetFunction(const char** function, void*, const char* name) {
  ENTER("cuModuleGetFunction");
  for (const char* known : {"profgpu_empty", "profgpu_read", "profgpu_write", "profgpu_copy", "profgpu_triad",
                            "profgpu_sum", "profgpu_sort", "profgpu_butterfly", "profgpu_reread"})
    if (std::strcmp(known, name) == 0) return *function = known, 0;
  return 500;
}
namespace {

// All passes over a buffer that the cache holds are as fast as the cache, but for the first where it was not there.
int reread(ModelStream* stream, uint64_t address, uint64_t total, uint64_t bytes) {
  const bool fits = static_cast<int64_t>(bytes) <= cache_bytes(stream->device);
  const bool was_there = model_touch(stream->device, address, bytes) != 0;
  const uint64_t from_memory = !fits ? total : was_there ? 0 : std::min(total, bytes);
  return model_work(stream, model_setting("copy_ns", stream->device, 1200) +
                                static_cast<double>(from_memory) / model_setting("local", stream->device, 2000) +
                                static_cast<double>(total - from_memory) / model_setting("cache", stream->device, 5000));
}

}  // namespace

MODEL_EXPORT int cuLaunchKernel(const char* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                unsigned, ModelStream* stream, void** parameters, void**) {
  ENTER("cuLaunchKernel");
  if (stream->captured_ns < 0) pass("launch_ns", 2000);
  const std::string name = function;
  if (name == "profgpu_empty") return model_work(stream, model_setting("kernel_ns", stream->device, 1000));
  // Both read and write all of their 32-bit numbers.
  if (name == "profgpu_sort" || name == "profgpu_butterfly")
    return copy(stream, 8 * static_cast<double>(*static_cast<uint64_t*>(parameters[1])), "local", 2000);
  const auto parameter = [&](int i) { return *static_cast<uint64_t*>(parameters[i]); };
  if (name == "profgpu_reread") return reread(stream, parameter(0), 16 * parameter(2), parameter(3) + 1);
  const int pointers = name == "profgpu_write" ? 1 : name == "profgpu_triad" ? 3 : 2;
  const int traffic = name == "profgpu_read" || name == "profgpu_sum" ? 1 : pointers;
  const auto bytes = 16 * static_cast<double>(parameter(pointers));
  for (int i = 0; i < pointers; ++i) model_touch(stream->device, parameter(i), 16 * parameter(pointers));
  return copy(stream, traffic * bytes, "local", 2000);
}

MODEL_EXPORT int cuStreamBeginCapture_v2(ModelStream* stream, int) {
  ENTER("cuStreamBeginCapture_v2");
  return stream->captured_ns = 0, 0;
}
MODEL_EXPORT int cuStreamEndCapture(ModelStream* stream, ModelGraph** graph) {
  ENTER("cuStreamEndCapture");
  *graph = &graphs.emplace_back(ModelGraph{stream->captured_ns});
  return stream->captured_ns = -1, 0;
}
MODEL_EXPORT int cuGraphInstantiateWithFlags(ModelGraph** exec, ModelGraph* graph, unsigned long long) {
  ENTER("cuGraphInstantiateWithFlags");
  return *exec = &graphs.emplace_back(*graph), 0;
}
MODEL_EXPORT int cuGraphLaunch(ModelGraph* exec, ModelStream* stream) {
  ENTER("cuGraphLaunch");
  pass("launch_ns", 2000);
  return model_work(stream, exec->ns);
}
MODEL_EXPORT int cuGraphExecDestroy(ModelGraph*) { return 0; }
MODEL_EXPORT int cuGraphDestroy(ModelGraph*) { return 0; }
