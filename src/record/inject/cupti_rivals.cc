// CUPTI's functions by which another profiler in the process, such as torch.profiler, collects the device's records.
// Where this library is preloaded, the other's calls come here first: we collect our records, yield, and resume when it
// is done. Where it is not preloaded, these are never called.
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

// The other profiler's enabled kinds; it is done when there are none.
struct Rival {
  BufferRequested requested;
  BufferCompleted completed;
  std::atomic<bool> active;
  std::atomic<uint32_t> kinds;
  std::atomic<bool> kind[kMaxKinds];
};
Rival rival;

// The function in the libcupti that we use, else in the one that is mapped: RTLD_NEXT finds nothing in libraries that
// were opened later. Null: there is none.
template <auto kMember>
auto real(const char* name) {
  const Calls* const ours = session_calls();
  auto function = ours != nullptr ? ours->*kMember : nullptr;
  char path[512];
  if (function != nullptr || dlopen == nullptr || mapped_libraries("", path, sizeof path) == 0) return function;
  void* const handle = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  return handle != nullptr ? reinterpret_cast<decltype(function)>(dlsym(handle, name)) : nullptr;
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
  const auto call = real<&Calls::ActivityRegisterCallbacks>(__func__);
  if (call == nullptr) return kNotInitialized;
  rival_comes();
  rival.requested = requested;
  rival.completed = completed;
  return call(requested, completed);
}

PROFGPU_EXPORT Result cuptiActivityRegisterTimestampCallback(TimestampCallback callback) {
  const auto call = real<&Calls::ActivityRegisterTimestampCallback>(__func__);
  if (call == nullptr) return kNotInitialized;
  rival_comes();
  return call(callback);
}

PROFGPU_EXPORT Result cuptiActivityEnable(uint32_t kind) {
  const Calls* const ours = session_calls();
  const auto call = real<&Calls::ActivityEnable>(__func__);
  if (call == nullptr) return kNotInitialized;
  // If it registered its callbacks before, ours have replaced them.
  if (!rival.active && ours != nullptr && rival.completed != nullptr) {
    rival_comes();
    ours->ActivityRegisterCallbacks(rival.requested, rival.completed);
  }
  if (kind < kMaxKinds && !rival.kind[kind].exchange(true)) rival.kinds.fetch_add(1);
  return call(kind);
}

PROFGPU_EXPORT Result cuptiActivityDisable(uint32_t kind) {
  const auto call = real<&Calls::ActivityDisable>(__func__);
  if (call == nullptr) return kNotInitialized;
  const Result result = call(kind);
  if (kind < kMaxKinds && rival.kind[kind].exchange(false) && rival.kinds.fetch_sub(1) == 1) rival_leaves(false);
  return result;
}

PROFGPU_EXPORT Result cuptiFinalize() {
  const auto call = real<&Calls::Finalize>(__func__);
  if (call == nullptr) return kNotInitialized;
  yield_to(kWhom);  // our records must be collected before CUPTI drops them
  const Result result = call();
  for (std::atomic<bool>& kind : rival.kind) kind = false;
  rival.kinds = 0;
  rival_leaves(true);
  return result;
}
