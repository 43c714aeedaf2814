// The cells that a character takes on a terminal.
#pragma once

#include <cstdint>

#include "base/utf8.h"

namespace profgpu {

/// 0 for combining marks, 2 for East Asian wide and fullwidth characters and emoji, 1 for the rest.
int char_width(uint32_t code_point);

}  // namespace profgpu
