// Cells of one character on a terminal.
#pragma once

#include <cstdint>

namespace profgpu {

/// 0 for combining marks, 2 for East Asian wide and fullwidth characters and emoji, 1 for the rest.
int char_width(uint32_t code_point);

}  // namespace profgpu
