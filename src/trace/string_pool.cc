#include "trace/string_pool.h"

#include <cstring>

namespace profgpu {
namespace {

constexpr size_t kBlockBytes = 1 << 16;

uint64_t load64(const char* p) {
  uint64_t v;
  std::memcpy(&v, p, 8);
  return v;
}

// Multiply-and-fold over 16 bytes at a time; quality is checked by the pool's own test on real kernel names.
uint32_t hash_of(std::string_view s) {
  constexpr uint64_t kA = 0x9E3779B97F4A7C15, kB = 0xD6E8FEB86659FD93;
  uint64_t h = s.size() * kA;
  const char* p = s.data();
  size_t n = s.size();
  auto mix = [](uint64_t a, uint64_t b) {
    unsigned __int128 m = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(m) ^ static_cast<uint64_t>(m >> 64);
  };
  for (; n > 16; n -= 16, p += 16) h = mix(load64(p) ^ kA ^ h, load64(p + 8) ^ kB);
  uint64_t a = 0, b = 0;
  if (n >= 8) {
    a = load64(p);
    b = load64(p + n - 8);
  } else if (n > 0) {
    std::memcpy(&a, p, n);
  }
  h = mix(a ^ kB ^ h, b ^ kA ^ (h >> 7));
  return static_cast<uint32_t>(h ^ (h >> 32));
}

}  // namespace

StringPool::StringPool() : slots_(1024, 0) {}

const char* StringPool::store(std::string_view text) {
  if (text.empty()) return "";
  if (block_size_ - block_used_ < text.size()) {
    block_size_ = text.size() > kBlockBytes / 4 ? text.size() : kBlockBytes;
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(block_size_));
    block_used_ = 0;
    arena_bytes_ += block_size_;
  }
  char* at = blocks_.back().get() + block_used_;
  std::memcpy(at, text.data(), text.size());
  block_used_ += text.size();
  return at;
}

size_t StringPool::slot_of(std::string_view text, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t i = hash & mask;
  for (; slots_[i] != 0; i = (i + 1) & mask) {
    const Text& t = texts_[slots_[i] - 1];
    if (t.hash == hash && std::string_view(t.data, t.size) == text) break;
  }
  return i;
}

StringId StringPool::intern(std::string_view text) {
  const uint32_t hash = hash_of(text);
  const size_t i = slot_of(text, hash);
  if (slots_[i] != 0) return StringId(slots_[i] - 1);
  texts_.push_back({store(text), static_cast<uint32_t>(text.size()), hash});
  slots_[i] = static_cast<uint32_t>(texts_.size());
  if (texts_.size() * 2 > slots_.size()) grow();
  return StringId(texts_.size() - 1);
}

StringId StringPool::find(std::string_view text) const {
  const size_t i = slot_of(text, hash_of(text));
  return slots_[i] != 0 ? StringId(slots_[i] - 1) : StringId();
}

void StringPool::grow() {
  std::vector<uint32_t> bigger(slots_.size() * 2, 0);
  const size_t mask = bigger.size() - 1;
  for (size_t t = 0; t < texts_.size(); ++t) {
    size_t i = texts_[t].hash & mask;
    while (bigger[i] != 0) i = (i + 1) & mask;
    bigger[i] = static_cast<uint32_t>(t + 1);
  }
  slots_ = std::move(bigger);
}

std::vector<StringId> StringPool::absorb(const StringPool& other) {
  std::vector<StringId> map(other.size());
  for (size_t i = 0; i < other.size(); ++i) map[i] = intern(other[StringId(i)]);
  return map;
}

size_t StringPool::memory_bytes() const {
  return arena_bytes_ + slots_.size() * sizeof(uint32_t) + texts_.capacity() * sizeof(Text);
}

}  // namespace profgpu
