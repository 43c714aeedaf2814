#include "inject/nvtx_handles.h"

#include <string.h>

#include "inject/recorder.h"
#include "inject/system_call.h"

namespace profgpu::inject::nvtx {

struct Handle {
  mutable std::atomic<uint64_t> known;  ///< generation of the recorder << 32 | number
  uint32_t length;
  char text[];
};

namespace {

constexpr size_t kHandleBytes = 16 << 20;
constexpr uint32_t kEntries = 1u << 15;
constexpr uint32_t kMaxProbes = 64;

std::atomic<char*> handle_memory;
std::atomic<size_t> handles_used;
std::atomic<Handle*> entries[kEntries];

char* ensure_memory() {
  char* at = handle_memory.load(std::memory_order_acquire);
  if (at != nullptr) return at;
  void* const mapped =
      map_memory(nullptr, kHandleBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  if (is_failure(mapped)) return nullptr;
  if (handle_memory.compare_exchange_strong(at, static_cast<char*>(mapped))) return static_cast<char*>(mapped);
  system_call(SYS_munmap, as_word(mapped), kHandleBytes);
  return at;
}

Handle* make(const char* text, size_t length) {
  char* const base = ensure_memory();
  const size_t size = (sizeof(Handle) + length + 7) / 8 * 8;
  if (base == nullptr || handles_used.load(std::memory_order_relaxed) + size > kHandleBytes) return nullptr;
  const size_t at = handles_used.fetch_add(size, std::memory_order_relaxed);
  if (at + size > kHandleBytes) return nullptr;
  auto* const handle = reinterpret_cast<Handle*>(base + at);
  handle->length = static_cast<uint32_t>(length);
  memcpy(handle->text, text, length);
  return handle;
}

}  // namespace

const Handle* handle_of(const char* text, size_t length) {
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < length; ++i) hash = (hash ^ static_cast<uint8_t>(text[i])) * 16777619u;
  Handle* made = nullptr;
  for (uint32_t probe = 0; probe < kMaxProbes; ++probe) {
    std::atomic<Handle*>& entry = entries[(hash + probe) % kEntries];
    Handle* seen = entry.load(std::memory_order_acquire);
    if (seen == nullptr) {
      if (made == nullptr && (made = make(text, length)) == nullptr) break;
      if (entry.compare_exchange_strong(seen, made, std::memory_order_acq_rel)) return made;
    }
    if (seen->length == length && memcmp(seen->text, text, length) == 0) return seen;
  }
  if (made == nullptr) drop(wire::ChunkKind::kStrings, wire::DropReason::kNamesFull, 1);
  return made;
}

const char* text_of(const Handle* handle, size_t& length) {
  length = handle != nullptr ? handle->length : 0;
  return handle != nullptr ? handle->text : "";
}

uint32_t name_of(const Handle* handle) {
  if (handle == nullptr) return 0;
  const uint64_t known = handle->known.load(std::memory_order_relaxed);
  const uint32_t generation = recorder_generation();
  if (known >> 32 == generation) return static_cast<uint32_t>(known);
  const uint32_t id = intern(handle->text, handle->length);
  handle->known.store(uint64_t{generation} << 32 | id, std::memory_order_relaxed);
  return id;
}

}  // namespace profgpu::inject::nvtx
