// LEB128 numbers and the zigzag mapping that keeps small negative ones short. No C++ runtime: the recorder has none.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace profgpu {

inline constexpr size_t kMaxVarintBytes = 10;

constexpr uint64_t zigzag(uint64_t two_s_complement) {
  return (two_s_complement << 1) ^ (0 - (two_s_complement >> 63));
}
constexpr uint64_t from_zigzag(uint64_t z) { return (z >> 1) ^ (0 - (z & 1)); }

/// Writes at most kMaxVarintBytes at `out`; returns the end.
inline uint8_t* put_varint(uint8_t* out, uint64_t value) {
  while (value >= 0x80) {
    *out++ = static_cast<uint8_t>(value | 0x80);
    value >>= 7;
  }
  *out++ = static_cast<uint8_t>(value);
  return out;
}

/// The same, at the end of a std::string.
template <class Bytes>
void append_varint(Bytes& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

/// Reads from [at, end); returns the place after it, or null if it does not end there or is over 64 bits.
inline const uint8_t* get_varint(const uint8_t* at, const uint8_t* end, uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; at != end && shift < 64; shift += 7) {
    const uint8_t byte = *at++;
    if (shift == 63 && byte > 1) return nullptr;
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return at;
  }
  return nullptr;
}

/// The same, taken from the front of a std::string_view; false: it stays as it is.
template <class Bytes>
bool take_varint(Bytes& from, uint64_t& value) {
  const auto* const begin = reinterpret_cast<const uint8_t*>(from.data());
  const uint8_t* const end = get_varint(begin, begin + from.size(), value);
  if (end == nullptr) return false;
  from.remove_prefix(static_cast<size_t>(end - begin));
  return true;
}

}  // namespace profgpu
