// Work of known counts and sizes, for comparison with a recording of it: kernels on several streams, copies, sets,
// allocations, graphs, ranges. Prints what it did as one JSON object. Called with a number it launches so many kernels
// that do nothing, and prints what a launch takes the host.
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define HAVE_NVTX 1
#else
#define HAVE_NVTX 0
#endif

namespace {

constexpr int kStreams = 4, kLaunches = 2000, kCopies = 100, kSets = 50, kGraphLaunches = 200, kGraphNodes = 5;
constexpr int kAllocations = 20, kRanges = 25, kSpins = 200;
constexpr size_t kCopyBytes = 1234568;
constexpr unsigned long long kSpinNs = 50000;

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "known_work: %s: %s\n", what, cudaGetErrorString(error));
  exit(1);
}
#define CHECK(call) check(call, #call)

}  // namespace

extern "C" __global__ void known_add(float* data, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] += 1;
}
// Runs for so long on the device's own clock.
extern "C" __global__ void known_spin(unsigned long long ns) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - begin < ns);
}
extern "C" __global__ void known_nothing() {}
extern "C" __global__ void known_node(float* data) { data[threadIdx.x] += 1; }

namespace {

void kernels(float* data, cudaStream_t* streams) {
  for (int i = 0; i < kLaunches; ++i) known_add<<<33, 128, 0, streams[i % kStreams]>>>(data, 4096);
  for (int i = 0; i < kSpins; ++i) known_spin<<<1, 1, 0, streams[0]>>>(kSpinNs);
  CHECK(cudaGetLastError());
}

void copies(char* device, char* host) {
  for (int i = 0; i < kCopies; ++i) {
    CHECK(cudaMemcpyAsync(device, host, kCopyBytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpyAsync(host, device, kCopyBytes, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpyAsync(device + kCopyBytes, device, kCopyBytes, cudaMemcpyDeviceToDevice));
  }
  for (int i = 0; i < kSets; ++i) CHECK(cudaMemsetAsync(device, 0x5a, kCopyBytes));
}

void graphs(float* data, cudaStream_t stream) {
  cudaGraph_t graph;
  cudaGraphExec_t runnable;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < kGraphNodes; ++i) known_node<<<1, 64, 0, stream>>>(data);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&runnable, graph, 0));
  for (int i = 0; i < kGraphLaunches; ++i) CHECK(cudaGraphLaunch(runnable, stream));
  CHECK(cudaStreamSynchronize(stream));
}

void allocations() {
  for (int i = 0; i < kAllocations; ++i) {
    void* memory;
    CHECK(cudaMalloc(&memory, 1 << 20));
    CHECK(cudaFree(memory));
  }
}

// In batches that the device's queue has room for: it is never waited for while the clock runs.
int launches(long count) {
  constexpr int kBatch = 500;
  using Clock = std::chrono::steady_clock;
  Clock::duration taken{};
  for (long batch = -2; batch < count / kBatch; ++batch) {   // the first two warm up
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < kBatch; ++i) known_nothing<<<1, 1>>>();
    if (batch >= 0) taken += Clock::now() - begin;
    CHECK(cudaDeviceSynchronize());
  }
  const double ns = std::chrono::duration<double, std::nano>(taken).count();
  printf("{\"launches\": %ld, \"ns_a_launch\": %.1f}\n", count / kBatch * kBatch, ns / (count / kBatch * kBatch));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) return launches(atol(argv[1]));
  float* data;
  char *device, *host;
  cudaStream_t streams[kStreams];
  CHECK(cudaMalloc(&data, 4096 * sizeof(float)));
  CHECK(cudaMalloc(&device, 2 * kCopyBytes));
  CHECK(cudaMallocHost(&host, kCopyBytes));
  for (cudaStream_t& stream : streams) CHECK(cudaStreamCreate(&stream));
#if HAVE_NVTX
  for (int i = 0; i < kRanges; ++i) {
    nvtxRangePushA("known range");
    nvtxRangePop();
  }
#endif
  kernels(data, streams);
  copies(device, host);
  graphs(data, streams[1]);
  allocations();
  CHECK(cudaDeviceSynchronize());
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  printf("{\"device\": \"%s\", \"by_name\": {\"known_add\": %d, \"known_spin\": %d, \"known_node\": %d}, \"spin_ns\": %llu, "
         "\"copies\": {\"1\": %d, \"2\": %d, \"8\": %d}, \"copy_bytes\": %zu, \"sets\": %d, \"set_bytes\": %zu, "
         "\"graph_launches\": %d, \"allocations\": %d, \"ranges\": %d, \"streams\": %d}\n",
         properties.name, kLaunches, kSpins, kGraphLaunches * kGraphNodes, kSpinNs, kCopies, kCopies, kCopies, kCopyBytes, kSets,
         kCopyBytes, kGraphLaunches, kAllocations + 2, HAVE_NVTX ? kRanges : 0, kStreams);
  return 0;
}
