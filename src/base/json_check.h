// Whether text is JSON, to the letter of RFC 8259. JsonReader takes more, since what it reads was written by others.
#pragma once

#include <string_view>

namespace profgpu {

/// One value, with nothing before or after it; nested at most 64 deep. Strings may hold any bytes from 0x20 on.
bool is_json(std::string_view text);

}  // namespace profgpu
