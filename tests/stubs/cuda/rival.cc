// Another profiler in the process, as torch.profiler does it: it takes the buffer callbacks and the clock, enables the
// kinds that it wants, and disables them at its stop. It counts the kernels that it is given.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "sim.h"

extern "C" {
int cuptiActivityRegisterCallbacks(void (*)(uint8_t**, size_t*, size_t*), void (*)(void*, uint32_t, uint8_t*, size_t, size_t));
int cuptiActivityRegisterTimestampCallback(uint64_t (*)());
int cuptiActivityEnable(uint32_t kind);
int cuptiActivityDisable(uint32_t kind);
int cuptiActivityFlushAll(uint32_t flag);
int cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, uint8_t** record);
int cuptiFinalize();
}

namespace {

constexpr size_t kBufferBytes = 1 << 20;
constexpr uint32_t kinds[] = {cuda_sim::kKernel, cuda_sim::kCopy, cuda_sim::kSet, cuda_sim::kRuntime};
std::atomic<uint64_t> kernels{0};

void requested(uint8_t** buffer, size_t* size, size_t* most) {
  *buffer = static_cast<uint8_t*>(calloc(1, kBufferBytes));
  *size = kBufferBytes;
  *most = 0;
}
void completed(void*, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  uint8_t* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == 0) {
    uint32_t kind;
    memcpy(&kind, record, sizeof kind);
    if (kind == cuda_sim::kKernel) kernels.fetch_add(1);
  }
  free(buffer);
}

}  // namespace

SIM_EXPORT void rival_start(int with_clock) {
  if (with_clock != 0)
    cuptiActivityRegisterTimestampCallback([] { return cuda_sim::clock_ns(CLOCK_MONOTONIC) * 3; });
  cuptiActivityRegisterCallbacks(requested, completed);
  for (const uint32_t kind : kinds) cuptiActivityEnable(kind);
}
/// Returns the kernels that it saw.
SIM_EXPORT uint64_t rival_stop(int finalize) {
  cuptiActivityFlushAll(1);
  for (const uint32_t kind : kinds) cuptiActivityDisable(kind);
  if (finalize != 0) cuptiFinalize();
  return kernels.exchange(0);
}
