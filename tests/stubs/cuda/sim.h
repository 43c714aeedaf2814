// What the stand-ins for libcuda.so.1 and libcupti.so share, and what cuda-sim calls. Simulated: no GPU is behind it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>

#define SIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace cuda_sim {

// CUPTI's numbers of activity kinds, as far as they are played.
enum Kind : uint32_t {
  kCopy = 1,
  kSet = 2,
  kDriver = 4,
  kRuntime = 5,
  kDevice = 8,
  kContext = 9,
  kKernel = 10,
  kOverhead = 17,
  kPeerCopy = 22,
  kSync = 38,
  kExternal = 39,
  kMemory = 49,
  kGraph = 51,
  kKinds = 64,
};

/// Something that the simulated device, or CUPTI itself, did. Times are Unix time (steady_clock.h).
struct Work {
  Kind kind;
  uint64_t start, end;
  uint32_t device, context, stream, correlation;
  const char* name;  ///< kernels
  int32_t grid[3], block[3];
  int32_t registers, static_shared, dynamic_shared;
  uint64_t bytes, address;  ///< copies, sets, allocations
  uint8_t copy_kind, from_kind, to_kind, flags;
  uint32_t peer;   ///< the device copied to
  uint32_t type;   ///< of a synchronisation, an overhead, an allocation; the value of a set
  uint32_t event;  ///< of a synchronisation
  uint32_t graph;
  uint64_t node;
  uint32_t thread;  ///< the overhead's
};

struct ApiCall {
  bool driver;
  uint32_t cbid;
  uint64_t start, end;
  uint32_t correlation, result;
};

/// What libcupti gives to libcuda.
struct Tracer {
  void (*work)(const Work&);
  void (*call)(const ApiCall&);
  /// A callback around a call: site 0 before it, 1 after it.
  void (*callback)(bool driver, uint32_t cbid, uint32_t site);
  bool (*graphs_whole)();  ///< graph launches are traced as one
};

/// A kernel that cuda-sim launches.
struct Launch {
  const char* name;
  int32_t grid[3], block[3];
  int32_t registers, static_shared, dynamic_shared;
  uint32_t stream, device;
  uint64_t duration_ns;
  uint32_t result;     ///< what the call returns; the kernel runs only if 0
  bool through_runtime;  ///< by cudaLaunchKernel, which calls cuLaunchKernel
  /// Of a kernel that waits for other processes: its end, asked for when the device is waited for. One at a time.
  uint64_t (*end_of)(void* meeting, uint64_t start) = nullptr;
  void* meeting = nullptr;
};

inline uint64_t clock_ns(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

/// Number of KEY in the environment's CUDA_SIM=KEY=VALUE,KEY=VALUE; `otherwise` where it is not there.
inline const char* scenario_text(const char* key) {
  const char* at = getenv("CUDA_SIM");
  const size_t length = strlen(key);
  for (; at != nullptr && *at != 0; at = strchr(at, ','), at = at == nullptr ? at : at + 1)
    if (strncmp(at, key, length) == 0 && at[length] == '=') return at + length + 1;
  return nullptr;
}
inline int64_t scenario(const char* key, int64_t otherwise) {
  const char* const text = scenario_text(key);
  return text == nullptr ? otherwise : strtoll(text, nullptr, 0);
}

}  // namespace cuda_sim
