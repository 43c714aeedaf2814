// UTF-8: encoding, decoding, and repair of text that is not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace profgpu {

void append_utf8(std::string& out, uint32_t code_point);
/// One character: its code point and its bytes.
struct Character {
  uint32_t code_point = 0xFFFD;
  size_t bytes = 1;
  bool valid = false;   ///< false: a byte that belongs to no character
};

/// The character at the start of `s`, which is not empty.
Character first_character(std::string_view s);

/// C0, DEL and C1: what terminals obey.
bool is_control(uint32_t code_point);
/// Bidi controls, line separators, zero-width characters and tags: what changes other text and cannot be seen.
bool is_invisible(uint32_t code_point);

/// Length of the valid sequence at the start of `s` (1 to 4), or 0 if there is none (overlong, surrogate, cut, stray).
size_t utf8_sequence(std::string_view s);
/// Replaces each byte that is not part of a valid sequence by U+FFFD; returns how many.
int64_t replace_invalid_utf8(std::string& text);

}  // namespace profgpu
