// A stand-in for libcuda.so.1. It keeps time for streams and tells the stand-in for CUPTI what "ran". cuInit loads
// CUDA_INJECTION64_PATH as NVIDIA's driver does.
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "sim.h"
#include "steady_clock.h"

using namespace cuda_sim;

namespace {

constexpr uint32_t kMaxStreams = 64;
constexpr uint32_t kMaxDevices = 8;
constexpr uint32_t kNoDevice = 100;

std::atomic<const Tracer*> tracer{nullptr};
std::atomic<uint32_t> correlations{0};
std::atomic<uint64_t> stream_end[kMaxDevices][kMaxStreams];
std::atomic<uint64_t> next_address{0x7f0000000000};
std::atomic<uint32_t> next_event{0};
pid_t initialised = 0;

uint64_t now() { return steady_unix_ns(); }

void inject() {
  const char* const path = getenv("CUDA_INJECTION64_PATH");
  if (path == nullptr || *path == 0) return;
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const auto start = library ? reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection")) : nullptr;
  if (start != nullptr) start();
}

// Work of so many nanoseconds after what the stream has already; its start and end.
void occupy(Work& work, uint64_t duration) {
  std::atomic<uint64_t>& end = stream_end[work.device % kMaxDevices][work.stream % kMaxStreams];
  uint64_t before = end.load();
  do {
    const uint64_t ready = now();
    work.start = before > ready ? before : ready;
    work.end = work.start + duration;
  } while (!end.compare_exchange_weak(before, work.end));
}

void tell(const Work& work) {
  if (const Tracer* t = tracer.load()) t->work(work);
}

// The kernel whose end other processes decide.
struct Unended {
  Work work;
  uint64_t (*end_of)(void*, uint64_t);
  void* meeting;
} unended{};

void wait_for_others() {
  if (unended.end_of == nullptr) return;
  Work& work = unended.work;
  work.end = unended.end_of(unended.meeting, work.start);
  stream_end[work.device % kMaxDevices][work.stream % kMaxStreams] = work.end;
  tell(work);
  unended = {};
}

// One call of the driver, or of the runtime that calls the driver: calls of one launch have one correlation.
class Call {
 public:
  Call(bool driver, uint32_t cbid, uint32_t correlation) : call_{driver, cbid, 0, 0, correlation, 0} {
    if (const Tracer* t = tracer.load()) t->callback(driver, cbid, 0);
    call_.start = now();
  }
  Call(const Call&) = delete;
  ~Call() {
    call_.end = now();
    if (const Tracer* t = tracer.load()) {
      t->call(call_);
      t->callback(call_.driver, call_.cbid, 1);
    }
  }
  void result(uint32_t result) { call_.result = result; }

 private:
  ApiCall call_;
};

uint32_t next_correlation() { return correlations.fetch_add(1) + 1; }

Work work_of(Kind kind, uint32_t correlation, uint32_t device, uint32_t stream) {
  Work work{};
  work.kind = kind, work.correlation = correlation, work.device = device, work.context = device + 1, work.stream = stream;
  return work;
}

}  // namespace

SIM_EXPORT void sim_set_tracer(const Tracer* to) {
  tracer.store(to);
}

SIM_EXPORT int cuInit(unsigned) {
  if (scenario("no_device", 0)) return kNoDevice;
  if (initialised == getpid()) return 0;
  if (initialised != 0) return 3;  // a forked child of a process with CUDA: not initialised, as the real one says
  initialised = getpid();
  inject();
  return 0;
}
SIM_EXPORT int cuDriverGetVersion(int* version) {
  *version = static_cast<int>(scenario("driver", 13000));
  return 0;
}
SIM_EXPORT int cuDeviceGetCount(int* count) {
  *count = static_cast<int>(scenario("devices", 1));
  return 0;
}
SIM_EXPORT int cuDeviceGetPCIBusId(char* text, int size, int device) {
  snprintf(text, static_cast<size_t>(size), "00000000:%02X:00.0", 0x10 + device);
  return 0;
}
SIM_EXPORT int cuProfilerStart() {
  const uint32_t correlation = next_correlation();
  Call runtime(false, 171, correlation);
  Call driver(true, 308, correlation);
  return 0;
}
SIM_EXPORT int cuProfilerStop() {
  const uint32_t correlation = next_correlation();
  Call runtime(false, 172, correlation);
  Call driver(true, 309, correlation);
  return 0;
}

SIM_EXPORT uint32_t sim_launch(const Launch* launch) {
  const uint32_t correlation = next_correlation();
  const auto start = [&] {
    Call driver(true, 307, correlation);
    driver.result(launch->result);
    if (launch->result != 0) return;
    Work work = work_of(kKernel, correlation, launch->device, launch->stream);
    work.name = launch->name;
    memcpy(work.grid, launch->grid, sizeof work.grid);
    memcpy(work.block, launch->block, sizeof work.block);
    work.registers = launch->registers, work.static_shared = launch->static_shared;
    work.dynamic_shared = launch->dynamic_shared;
    occupy(work, launch->duration_ns);
    if (launch->end_of != nullptr) unended = {work, launch->end_of, launch->meeting};
    else tell(work);
  };
  if (!launch->through_runtime) {
    start();
    return correlation;
  }
  Call runtime(false, 211, correlation);
  runtime.result(launch->result);
  start();
  return correlation;
}

/// `peer`: the device copied to, or -1. 100 ns and a nanosecond each 25 bytes.
SIM_EXPORT void sim_copy(uint32_t copy_kind, uint64_t bytes, uint32_t device, uint32_t stream, int peer, bool async) {
  const uint32_t correlation = next_correlation();
  Call runtime(false, async ? 41 : 31, correlation);
  Work work = work_of(peer < 0 ? kCopy : kPeerCopy, correlation, device, stream);
  work.bytes = bytes;
  work.copy_kind = static_cast<uint8_t>(peer < 0 ? copy_kind : 10);
  work.from_kind = copy_kind == 1 ? 2 : 3;
  work.to_kind = copy_kind == 2 ? 1 : 3;
  work.flags = async;
  work.peer = peer < 0 ? 0 : static_cast<uint32_t>(peer);
  occupy(work, 100 + bytes / 25);
  tell(work);
}

SIM_EXPORT void sim_set(uint64_t bytes, uint32_t value, uint32_t device, uint32_t stream) {
  const uint32_t correlation = next_correlation();
  Call runtime(false, 51, correlation);
  Work work = work_of(kSet, correlation, device, stream);
  work.bytes = bytes, work.type = value, work.to_kind = 3;
  occupy(work, 100 + bytes / 1000);
  tell(work);
}

/// Waits in truth until the stream's work "ended". `type` is CUPTI's; 4 waits for the device's streams all.
SIM_EXPORT void sim_sync(uint32_t type, uint32_t device, uint32_t stream) {
  const uint32_t correlation = next_correlation();
  Call runtime(false, type == 4 ? 165 : type == 1 ? 137 : 131, correlation);
  Work work = work_of(kSync, correlation, device, type == 4 ? UINT32_MAX : stream);
  work.type = type, work.event = type == 1 ? next_event.fetch_add(1) + 1 : 0;
  work.start = now();
  wait_for_others();
  uint64_t until = stream_end[device % kMaxDevices][stream % kMaxStreams].load();
  for (uint32_t s = 0; type == 4 && s < kMaxStreams; ++s) {
    const uint64_t end = stream_end[device % kMaxDevices][s].load();
    until = end > until ? end : until;
  }
  while (now() < until) usleep(20);
  work.end = now();
  tell(work);
}

SIM_EXPORT uint64_t sim_malloc(uint64_t bytes, uint32_t device) {
  const uint32_t correlation = next_correlation();
  Call runtime(false, 20, correlation);
  Work work = work_of(kMemory, correlation, device, 0);
  work.address = next_address.fetch_add((bytes + 511) / 512 * 512);
  work.bytes = bytes, work.type = 1, work.to_kind = 3, work.start = now();
  tell(work);
  return work.address;
}
SIM_EXPORT void sim_free(uint64_t address, uint64_t bytes, uint32_t device) {
  const uint32_t correlation = next_correlation();
  Call runtime(false, 22, correlation);
  Work work = work_of(kMemory, correlation, device, 0);
  work.address = address, work.bytes = bytes, work.type = 2, work.to_kind = 3, work.start = now();
  tell(work);
}

/// A graph of `nodes` kernels after one another, as one launch.
SIM_EXPORT void sim_graph_launch(uint32_t graph, const Launch* nodes, uint32_t count) {
  const uint32_t correlation = next_correlation();
  Call runtime(false, 311, correlation);
  Call driver(true, 514, correlation);
  const Tracer* const t = tracer.load();
  const bool whole = t != nullptr && t->graphs_whole();
  Work all = work_of(kGraph, correlation, nodes[0].device, nodes[0].stream);
  all.graph = graph;
  for (uint32_t i = 0; i < count; ++i) {
    Work work = work_of(kKernel, correlation, nodes[i].device, nodes[i].stream);
    work.name = nodes[i].name, work.graph = graph;
    work.node = (uint64_t{graph} << 32) + i;
    memcpy(work.grid, nodes[i].grid, sizeof work.grid);
    memcpy(work.block, nodes[i].block, sizeof work.block);
    work.registers = nodes[i].registers;
    occupy(work, nodes[i].duration_ns);
    if (i == 0) all.start = work.start;
    all.end = work.end;
    if (!whole) tell(work);
  }
  if (whole) tell(all);
}

/// A call that does nothing on the device: cudaGetDevice (17) is one that programs make all the time.
SIM_EXPORT void sim_call(bool driver, uint32_t cbid) { Call call(driver, cbid, next_correlation()); }

/// Time that CUPTI takes from a thread.
SIM_EXPORT void sim_overhead(uint32_t type, uint64_t duration_ns) {
  Work work = work_of(kOverhead, 0, 0, 0);
  work.type = type, work.start = now(), work.end = work.start + duration_ns;
  work.thread = static_cast<uint32_t>(gettid());
  tell(work);
}
