// Text looked at a block of bytes at a time: sixteen with SSE2 or NEON, else one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace profgpu {

/// The kBytes bytes at a place in a text. Answers about single bytes can be joined by |; bits() makes one bit a byte of
/// them.
#if defined(__SSE2__)
class TextBlock {
 public:
  static constexpr size_t kBytes = 16;
  explicit TextBlock(const char* at) : bytes_(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at))) {}

  [[nodiscard]] __m128i is(char c) const { return _mm_cmpeq_epi8(bytes_, _mm_set1_epi8(c)); }
  /// Any of [ ] { }, which differ from each other in the bit 0x20.
  [[nodiscard]] __m128i bracket() const {
    const __m128i folded = _mm_or_si128(bytes_, _mm_set1_epi8(0x20));
    return _mm_cmpeq_epi8(folded, _mm_set1_epi8('{')) | _mm_cmpeq_epi8(folded, _mm_set1_epi8('}'));
  }
  [[nodiscard]] __m128i high() const { return bytes_; }
  /// Any up to `c`, as unsigned numbers.
  [[nodiscard]] __m128i up_to(char c) const { return _mm_cmpeq_epi8(_mm_min_epu8(bytes_, _mm_set1_epi8(c)), bytes_); }
  /// None of a blank, tab, line feed and carriage return: JSON's white space.
  [[nodiscard]] __m128i ink() const {
    return _mm_cmpeq_epi8(is(' ') | is('\t') | is('\n') | is('\r'), _mm_setzero_si128());
  }
  static unsigned bits(__m128i answer) { return static_cast<unsigned>(_mm_movemask_epi8(answer)); }
  /// Whether the first `count` bytes are those at `other`, where a whole block can be read.
  [[nodiscard]] bool begins_as(const char* other, size_t count) const {
    const unsigned differing = ~bits(_mm_cmpeq_epi8(bytes_, _mm_loadu_si128(reinterpret_cast<const __m128i*>(other))));
    return (differing & ((2U << (count - 1)) - 1)) == 0;
  }

 private:
  __m128i bytes_;
};
#elif defined(__ARM_NEON) && defined(__aarch64__)
class TextBlock {
 public:
  static constexpr size_t kBytes = 16;
  explicit TextBlock(const char* at) : bytes_(vld1q_u8(reinterpret_cast<const uint8_t*>(at))) {}

  [[nodiscard]] uint8x16_t is(char c) const { return vceqq_u8(bytes_, vdupq_n_u8(static_cast<uint8_t>(c))); }
  [[nodiscard]] uint8x16_t bracket() const {
    const uint8x16_t folded = vorrq_u8(bytes_, vdupq_n_u8(0x20));
    return vceqq_u8(folded, vdupq_n_u8('{')) | vceqq_u8(folded, vdupq_n_u8('}'));
  }
  [[nodiscard]] uint8x16_t high() const { return bytes_; }
  [[nodiscard]] uint8x16_t up_to(char c) const { return vcleq_u8(bytes_, vdupq_n_u8(static_cast<uint8_t>(c))); }
  [[nodiscard]] uint8x16_t ink() const { return vmvnq_u8(is(' ') | is('\t') | is('\n') | is('\r')); }
  /// Of each byte the highest bit, as in high(): one bit of its place in each half, and these added up.
  static unsigned bits(uint8x16_t answer) {
    constexpr uint8_t kPlaces[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t chosen = vandq_u8(vcltzq_s8(vreinterpretq_s8_u8(answer)), vld1q_u8(kPlaces));
    return vaddv_u8(vget_low_u8(chosen)) | static_cast<unsigned>(vaddv_u8(vget_high_u8(chosen))) << 8;
  }
  [[nodiscard]] bool begins_as(const char* other, size_t count) const {
    const unsigned differing = ~bits(vceqq_u8(bytes_, vld1q_u8(reinterpret_cast<const uint8_t*>(other))));
    return (differing & ((2U << (count - 1)) - 1)) == 0;
  }

 private:
  uint8x16_t bytes_;
};
#else
class TextBlock {
 public:
  static constexpr size_t kBytes = 1;
  explicit TextBlock(const char* at) : byte_(*at) {}

  [[nodiscard]] unsigned is(char c) const { return byte_ == c; }
  [[nodiscard]] unsigned bracket() const { return (byte_ | 0x20) == '{' || (byte_ | 0x20) == '}'; }
  [[nodiscard]] unsigned high() const { return (byte_ & 0x80) != 0; }
  [[nodiscard]] unsigned up_to(char c) const {
    return static_cast<unsigned char>(byte_) <= static_cast<unsigned char>(c);
  }
  [[nodiscard]] unsigned ink() const { return byte_ != ' ' && byte_ != '\t' && byte_ != '\n' && byte_ != '\r'; }
  static unsigned bits(unsigned answer) { return answer; }
  [[nodiscard]] bool begins_as(const char* other, size_t) const { return byte_ == *other; }

 private:
  char byte_;
};
#endif

/// The first byte from `at` for which match(TextBlock) says yes, or `end`. Up to TextBlock::kBytes - 1 bytes after
/// `end` are read.
template <class Match>
const char* find(const char* at, const char* end, Match&& match) {
  for (; at < end; at += TextBlock::kBytes)
    if (const unsigned hits = TextBlock::bits(match(TextBlock(at))); hits != 0)
      return std::min(at + __builtin_ctz(hits), end);
  return end;
}

}  // namespace profgpu
