#include "record/inject/names.h"

#include <linux/prctl.h>
#include <string.h>

#include "record/inject/recorder.h"
#include "record/inject/system_call.h"
#include "record/inject/text.h"

namespace profgpu::inject {
namespace {

constexpr uint32_t kNoRoom = UINT32_MAX;

// Not memcpy(): the thread sanitizer of a program that we are in sees that one, but not the atomics by which our own
// thread learns of the text, and would report a race.
void copy_text(char* to, const char* from, size_t length) {
#ifdef __x86_64__
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(length) : : "memory");
#else
  for (; length > 0; --length) {
    *to++ = *from++;
    asm volatile("" : : : "memory");   // or the compiler makes it a memcpy()
  }
#endif
}

}  // namespace

// Each eight bytes are folded in by a multiplication (the constant is 2^64 / golden ratio).
uint64_t hash_of(const char* text, size_t length) {
  uint64_t h = length * 0x9e3779b97f4a7c15u;
  for (; length >= 8; text += 8, length -= 8) {
    uint64_t word;
    memcpy(&word, text, 8);
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
  }
  uint64_t word = 0;
  memcpy(&word, text, length);
  h = (h ^ word) * 0x9e3779b97f4a7c15u;
  h ^= h >> 29;
  return h | 1;
}

bool Names::is(uint32_t id, const char* text, size_t length) {
  uint32_t known = 0;
  const char* const name = text_of(id, known);
  return known == length && memcmp(name, text, length) == 0;
}

uint32_t Names::add(Entry& entry, const char* text, size_t length) {
  const uint64_t offset = text_used_.fetch_add(length, std::memory_order_relaxed);
  const uint32_t place = offset + length <= text_size_ ? log.reserve() : decltype(log)::kNone;
  if (place == decltype(log)::kNone) {
    entry.id.store(kNoRoom, std::memory_order_release);
    return refuse();
  }
  copy_text(text_ + offset, text, length);
  log.at(place) = {static_cast<uint32_t>(length), place + 1, offset};
  log.publish(place);
  entry.id.store(place + 1, std::memory_order_release);
  return place + 1;
}

uint32_t Names::intern(const char* text, size_t length) {
  if (length == 0) return 0;
  if (length > kMaxNameBytes) length = kMaxNameBytes;
  const uint64_t hash = hash_of(text, length);
  for (uint32_t probe = 0; probe < kMaxProbes; ++probe) {
    Entry& entry = entries_[((hash >> 16) + probe) % kEntries];
    uint64_t seen = entry.hash.load(std::memory_order_acquire);
    if (seen == 0 && entry.hash.compare_exchange_strong(seen, hash, std::memory_order_acq_rel))
      return add(entry, text, length);
    if (seen != hash) continue;
    uint32_t id = entry.id.load(std::memory_order_acquire);
    // The thread that writes it may be interrupted by this one: after a while the name gets a second number.
    for (int i = 0; id == 0 && i < 1000; ++i) id = entry.id.load(std::memory_order_acquire);
    if (id == kNoRoom) return refuse();
    if (id != 0 && is(id, text, length)) return id;
  }
  return refuse();
}

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
  // Where another thread was faster, this thread gets a second number the next time; the rows of both name it.
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
