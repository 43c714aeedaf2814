// Hashes that are the same in every process and with every library.
#pragma once

#include <cstdint>
#include <string_view>

namespace profgpu {

/// FNV-1a of 64 bits (Fowler, Noll and Vo). `hash`: of what came before.
constexpr uint64_t fnv1a(std::string_view text, uint64_t hash = 0xcbf29ce484222325) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

/// splitmix64's finisher (Steele, Lea, Flood 2014): every bit of the result depends on every bit of `h`.
constexpr uint64_t mixed_bits(uint64_t h) {
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9;
  h = (h ^ (h >> 27)) * 0x94d049bb133111eb;
  return h ^ (h >> 31);
}
/// What splitmix64 adds from one number to the next: 2^64 over the golden ratio.
inline constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;

}  // namespace profgpu
