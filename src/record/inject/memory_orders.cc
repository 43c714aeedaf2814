// Snapshots of PyTorch's allocator on request: `profgpu attach PID memory` orders one through the control page, our own
// thread passes the order on, and a thread of the Python hook, which alone may call Python, takes it.
#include <string.h>

#include "record/inject/core.h"

using namespace profgpu;

/// The recording's path; it ends in ".pgt". Empty: nothing is recorded.
PROFGPU_EXPORT const char* profgpu_file(void) {
  const inject::Core* const core = inject::recording_core();
  return core != nullptr ? core->file.path() : "";
}

/// Waits, without Python's lock held, for an order after the first `seen`. Returns how many there were; 0: none will
/// come.
PROFGPU_EXPORT unsigned profgpu_memory_wait(unsigned seen) {
  using namespace inject;
  constexpr int64_t kWait_ns = 3600 * int64_t{1'000'000'000};
  Core* const core = recording_core();
  if (core == nullptr || core->control == nullptr) return 0;
  set_word(core->control->takes_memory, uint64_t{1});
  for (;;) {
    const uint32_t orders = core->memory_orders.load();
    if (orders != seen) return orders;
    wait_on(&core->memory_orders, seen, kWait_ns);
  }
}

/// The first `orders` orders have been carried out. `text`: the snapshot's path, or '!' and why there is none.
PROFGPU_EXPORT void profgpu_memory_done(unsigned orders, const char* text) {
  using namespace inject;
  Core* const core = recording_core();
  if (core == nullptr || core->control == nullptr) return;
  wire::ControlPage& page = *core->control;
  size_t length = strlen(text);
  if (length > sizeof page.memory - 1) length = sizeof page.memory - 1;
  memcpy(page.memory, text, length);
  memset(page.memory + length, 0, sizeof page.memory - length);
  __atomic_store_n(&page.memory_answered, uint64_t{orders}, __ATOMIC_RELEASE);
}
