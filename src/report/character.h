// One character of UTF-8: its code point, its bytes and the cells it takes on a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace profgpu {

struct Character {
  uint32_t code_point = 0xFFFD;
  size_t bytes = 1;
  bool valid = false;   ///< false: a byte that belongs to no character
};

/// The character at the start of `s`, which is not empty.
Character first_character(std::string_view s);

/// 0 for combining marks, 2 for East Asian wide and fullwidth characters and emoji, 1 for the rest.
int char_width(uint32_t code_point);

/// C0, DEL and C1: what terminals obey.
bool is_control(uint32_t code_point);
/// Bidi controls, line separators, zero-width characters and tags: what changes other text and cannot be seen.
bool is_invisible(uint32_t code_point);

}  // namespace profgpu
