#include "inject/threads.h"

#include <linux/prctl.h>

#include "inject/names.h"
#include "inject/system_call.h"
#include "inject/text.h"

namespace profgpu::inject {
namespace {

constexpr size_t kNameBytes = 16;  // the kernel's, with the NUL

uint32_t kernel_name(uint32_t tid, Names& names) {
  char name[kNameBytes] = "";
  if (tid == kernel_thread_id()) {
    system_call(SYS_prctl, PR_GET_NAME, as_word(name));
  } else {
    Text<64> path;
    path << "/proc/self/task/" << tid << "/comm";
    long length = read_whole(path.c_str(), name, sizeof name - 1);
    if (length > 0 && name[length - 1] == '\n') --length;
    name[length > 0 ? length : 0] = 0;
  }
  return names.intern(name, strnlen(name, sizeof name));
}

}  // namespace

uint32_t Threads::id(uint32_t pid, uint32_t tid, Names& names) {
  std::atomic<uint64_t>* free = nullptr;
  for (uint32_t probe = 0; probe < kEntries; ++probe) {
    std::atomic<uint64_t>& entry = entries_[(tid * 0x9e3779b1u + probe) % kEntries];
    const uint64_t seen = entry.load(std::memory_order_acquire);
    if (seen >> 32 == tid) return static_cast<uint32_t>(seen);
    if (seen != 0) continue;
    free = &entry;
    break;
  }
  const uint32_t place = free == nullptr ? decltype(log)::kNone : log.reserve();
  if (place == decltype(log)::kNone) return 0;
  const uint32_t id = place + 1;
  log.at(place) = {id, pid, tid, kernel_name(tid, names)};
  log.publish(place);
  // Where another thread was faster, this one gets a second number the next time; the rows of both name it.
  uint64_t nothing = 0;
  free->compare_exchange_strong(nothing, uint64_t{tid} << 32 | id, std::memory_order_release);
  return id;
}

uint32_t Threads::own_id(uint32_t pid, Names& names) {
  const uint32_t tid = kernel_thread_id();
  const uint32_t known = id(pid, tid, names);
  if (known == 0) return 0;
  const uint32_t name = kernel_name(tid, names);
  if (name != log.at(known - 1).name) log.add({known, pid, tid, name});
  return known;
}

void Threads::rename(uint32_t pid, uint32_t tid, uint32_t name, Names& names) {
  const uint32_t known = id(pid, tid, names);
  if (known != 0) log.add({known, pid, tid, name});
}

}  // namespace profgpu::inject
