#include "inject/names.h"

#include <string.h>

#include "inject/recorder.h"

namespace profgpu::inject {
namespace {

constexpr uint32_t kNoRoom = UINT32_MAX;

// Eight bytes at a time, each folded in by a multiplication (the constant is 2^64 / golden ratio). Never 0.
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

}  // namespace

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
  memcpy(text_ + offset, text, length);
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
    // Its writer may be a thread that this one interrupted: after a while the name gets a second number.
    for (int i = 0; id == 0 && i < 1000; ++i) id = entry.id.load(std::memory_order_acquire);
    if (id == kNoRoom) return refuse();
    if (id != 0 && is(id, text, length)) return id;
  }
  return refuse();
}

}  // namespace profgpu::inject
