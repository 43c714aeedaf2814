// CUPTI's functions by which another profiler in the process, such as torch.profiler, takes the device's records. Where
// this library is preloaded, the other's calls come here first: we bring in what is ours, leave, and come back when it
// is done. Where it is not preloaded, nobody calls these.
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "record/inject/cupti_library.h"
#include "record/inject/cupti_session.h"
#include "record/inject/glibc.h"
#include "record/inject/recorder.h"

namespace profgpu::inject::cupti {

namespace {

constexpr uint32_t kMaxKinds = 128;
constexpr Result kNotInitialized = 15;
constexpr char kWhom[] = "another profiler in the process (torch.profiler, for one)";

// What the other one has enabled; it is done when that is nothing.
struct Rival {
  BufferRequested requested;
  BufferCompleted completed;
  std::atomic<bool> active;
  std::atomic<uint32_t> kinds;
  std::atomic<bool> kind[kMaxKinds];
};
Rival rival;

// The function of that name in the libcupti that is mapped: RTLD_NEXT finds nothing in libraries that were opened
// later.
template <typename Function>
Function real(const char* name) {
  char path[512];
  if (dlopen == nullptr || mapped_libraries("", path, sizeof path) == 0) return nullptr;
  void* const handle = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  return handle != nullptr ? reinterpret_cast<Function>(dlsym(handle, name)) : nullptr;
}
template <typename Function>
Function real_or(Function ours, const char* name) {
  return ours != nullptr ? ours : real<Function>(name);
}

void rival_comes() {
  if (!rival.active.exchange(true)) yield_to(kWhom);
}
void rival_leaves(bool finalized) {
  if (rival.active.exchange(false) || finalized) resume_after(finalized);
}

}  // namespace

bool rival_records() { return rival.active; }

}  // namespace profgpu::inject::cupti

using namespace profgpu::inject::cupti;  // the exported functions have CUPTI's own names

PROFGPU_EXPORT Result cuptiActivityRegisterCallbacks(BufferRequested requested, BufferCompleted completed) {
  const Calls* const ours = session_calls();
  const auto call = real_or(ours != nullptr ? ours->ActivityRegisterCallbacks : nullptr, __func__);
  if (call == nullptr) return kNotInitialized;
  rival_comes();
  rival.requested = requested;
  rival.completed = completed;
  return call(requested, completed);
}

PROFGPU_EXPORT Result cuptiActivityRegisterTimestampCallback(TimestampCallback callback) {
  const Calls* const ours = session_calls();
  const auto call = real_or(ours != nullptr ? ours->ActivityRegisterTimestampCallback : nullptr, __func__);
  if (call == nullptr) return kNotInitialized;
  rival_comes();
  return call(callback);
}

PROFGPU_EXPORT Result cuptiActivityEnable(uint32_t kind) {
  const Calls* const ours = session_calls();
  const auto call = real_or(ours != nullptr ? ours->ActivityEnable : nullptr, __func__);
  if (call == nullptr) return kNotInitialized;
  // One that has registered its callbacks before finds ours in their place.
  if (!rival.active && ours != nullptr && rival.completed != nullptr) {
    rival_comes();
    ours->ActivityRegisterCallbacks(rival.requested, rival.completed);
  }
  if (kind < kMaxKinds && !rival.kind[kind].exchange(true)) rival.kinds.fetch_add(1);
  return call(kind);
}

PROFGPU_EXPORT Result cuptiActivityDisable(uint32_t kind) {
  const Calls* const ours = session_calls();
  const auto call = real_or(ours != nullptr ? ours->ActivityDisable : nullptr, __func__);
  if (call == nullptr) return kNotInitialized;
  const Result result = call(kind);
  if (kind < kMaxKinds && rival.kind[kind].exchange(false) && rival.kinds.fetch_sub(1) == 1) rival_leaves(false);
  return result;
}

PROFGPU_EXPORT Result cuptiFinalize() {
  const Calls* const ours = session_calls();
  const auto call = real_or(ours != nullptr ? ours->Finalize : nullptr, __func__);
  if (call == nullptr) return kNotInitialized;
  yield_to(kWhom);  // what is ours must be brought in before CUPTI forgets it
  const Result result = call();
  for (std::atomic<bool>& kind : rival.kind) kind = false;
  rival.kinds = 0;
  rival_leaves(true);
  return result;
}
