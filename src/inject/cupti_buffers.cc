#include "inject/cupti_buffers.h"

#include <string.h>
#include <sys/mman.h>

namespace profgpu::inject::cupti {

namespace {

// Pages come zeroed and only when they are written.
uint8_t* map(size_t bytes) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<uint8_t*>(at);
}

}  // namespace

bool Buffers::reserve(size_t bytes) {
  size_t count = bytes / kBytes;
  count = count < 4 ? 4 : count > kMost ? kMost : count;
  region_ = map(count * kBytes);
  if (region_ != nullptr) count_ = count;
  return region_ != nullptr;
}

uint8_t* Buffers::take(bool must) {
  // The lowest that is free: as much memory is touched as CUPTI holds at once, not all that it may.
  for (size_t at = 0; at < count_; ++at) {
    if (in_use_[at].load(std::memory_order_relaxed) || in_use_[at].exchange(true, std::memory_order_acquire)) continue;
    taken_.fetch_add(1, std::memory_order_relaxed);
    return region_ + at * kBytes;
  }
  return must ? take_beyond() : nullptr;
}

uint8_t* Buffers::take_beyond() {
  uint8_t* const buffer = map(kBytes);
  for (std::atomic<uint8_t*>& place : mapped_) {
    uint8_t* empty = nullptr;
    if (buffer == nullptr || !place.compare_exchange_strong(empty, buffer)) continue;
    beyond_.fetch_add(1, std::memory_order_relaxed);
    return buffer;
  }
  if (buffer != nullptr) munmap(buffer, kBytes);
  return nullptr;
}

Buffers::Origin Buffers::origin(const uint8_t* buffer) const {
  if (buffer >= region_ && buffer < region_ + count_ * kBytes) return Origin::kBound;
  for (const std::atomic<uint8_t*>& place : mapped_)
    if (place.load(std::memory_order_relaxed) == buffer) return Origin::kBeyond;
  return Origin::kForeign;
}

void Buffers::give_back(uint8_t* buffer) {
  if (buffer < region_ || buffer >= region_ + count_ * kBytes) {
    for (std::atomic<uint8_t*>& place : mapped_)
      if (uint8_t* expected = buffer; place.compare_exchange_strong(expected, nullptr)) {
        munmap(buffer, kBytes);
        beyond_.fetch_sub(1, std::memory_order_relaxed);
        return;
      }
    return;
  }
  memset(buffer, 0, kBytes);
  const size_t at = static_cast<size_t>(buffer - region_) / kBytes;
  taken_.fetch_sub(1, std::memory_order_relaxed);
  in_use_[at].store(false, std::memory_order_release);
}

}  // namespace profgpu::inject::cupti
