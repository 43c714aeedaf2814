// UTF-8: encoding, and repair of text that is not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace profgpu {

void append_utf8(std::string& out, uint32_t code_point);
/// Length of the valid sequence at the start of `s` (1 to 4), or 0 if there is none (overlong, surrogate, cut, stray).
size_t utf8_sequence(std::string_view s);
/// Replaces each byte that is not part of a valid sequence by U+FFFD; returns how many.
int64_t replace_invalid_utf8(std::string& text);

}  // namespace profgpu
